//! Compares the output of inventory commands with that of `ansible-inventory` (`tests/inventory/record`).

use std::fs;
use std::path::Path;
use std::process::Command;

use similar::TextDiff;

#[test]
fn inventory_output_matches_ansible() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inventory");
    let mut differing = 0;
    for case in fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let mut printed = String::new();
        for arguments in fs::read_to_string(case.join("runs")).unwrap().lines() {
            let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
                .arg("inventory")
                .args(arguments.split_whitespace())
                .current_dir(&case)
                .env_remove("ANSIBLE_CONFIG")
                .output()
                .unwrap();
            let stdout = String::from_utf8(output.stdout).unwrap();
            let code = output.status.code().unwrap();
            printed.push_str(&format!("$ {arguments}\n{}\n[exit {code}]\n", stdout.trim_end_matches('\n')));
        }
        let expected = fs::read_to_string(case.join("expected.txt")).unwrap();
        if printed != expected {
            differing += 1;
            let difference = TextDiff::from_lines(&expected, &printed);
            let difference = difference.unified_diff().header("ansible", "windlass").context_radius(3).to_string();
            eprintln!("==== {}\n{difference}", case.display());
        }
    }
    assert_eq!(differing, 0, "inventories are shown differently");
}
