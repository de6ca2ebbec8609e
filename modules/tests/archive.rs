//! `archive` on real folders.

#![allow(clippy::unwrap_used, clippy::panic)]

mod case;

use case::Bench;
use serde_json::json;

fn folder() -> Bench {
    let bench = Bench::new();
    bench.write("data/one.txt", "one\n").write("data/sub/two.log", "two\n");
    std::os::unix::fs::symlink("one.txt", bench.path("data/link")).unwrap();
    bench
}

#[test]
fn folder_packed_once_in_every_format() {
    for format in ["gz", "bz2", "xz", "tar", "zip"] {
        let bench = folder();
        let args = json!({"path": "@/data", "dest": "@/out", "format": format, "mode": "0600"});
        let result = bench.converges("archive", args.clone());
        assert_eq!(
            (&result["dest_state"], &result["state"], bench.mode("out")),
            (&json!("archive"), &json!("file"), 0o600)
        );
        assert_eq!(result["arcroot"], format!("{}/", bench.directory.path().display()));
        assert_eq!(result["archived"].as_array().unwrap().len(), 4, "{result}");
        std::fs::create_dir(bench.path("back")).unwrap();
        let unpacked = bench.run("unarchive", json!({"src": "@/out", "dest": "@/back", "remote_src": true}), false);
        assert_eq!(unpacked["changed"], true, "{format}: {unpacked}");
        assert_eq!(bench.read("back/data/sub/two.log"), "two\n");
        assert_eq!(std::fs::read_link(bench.path("back/data/link")).unwrap().display().to_string(), "one.txt");
        bench.write("data/one.txt", "other\n");
        assert_eq!(bench.run("archive", args.clone(), true)["changed"], true);
        assert_eq!(bench.run("archive", args, false)["changed"], true);
    }
}

#[test]
fn single_file_only_compressed() {
    for format in ["gz", "bz2", "xz"] {
        let bench = folder();
        let result = bench.converges("archive", json!({"path": "@/data/one.txt", "format": format}));
        assert_eq!(
            (&result["dest_state"], &result["dest"]),
            (&json!("compress"), &json!(bench.path(&format!("data/one.txt.{format}"))))
        );
        let forced = json!({"path": "@/data/one.txt", "dest": "@/forced", "format": format, "force_archive": true});
        assert_eq!(bench.converges("archive", forced)["dest_state"], "archive");
    }
}

#[test]
fn members_excluded_missing_reported_sources_removed() {
    let bench = folder();
    let args = json!({"path": ["@/data/*", "@/none"], "exclude_path": ["@/data/link"], "exclusion_patterns": ["*.log"], "dest": "@/out.tgz"});
    let result = bench.converges("archive", args);
    assert_eq!((&result["dest_state"], &result["missing"]), (&json!("incomplete"), &json!([bench.path("none")])));
    assert_eq!(result["archived"], json!([bench.path("data/one.txt")]), "{result}");
    let args = json!({"path": "@/data", "dest": "@/all.zip", "format": "zip", "remove": true});
    assert_eq!(bench.run("archive", args.clone(), true)["changed"], true);
    assert!(bench.path("data").exists());
    assert_eq!(bench.run("archive", args.clone(), false)["changed"], true);
    assert!(!bench.path("data").exists() && bench.path("all.zip").exists());
    let again = bench.run("archive", args, false);
    assert_eq!((&again["changed"], &again["dest_state"]), (&json!(false), &json!("archive")), "{again}");
}

#[test]
fn archive_invalid_inputs_refused() {
    let bench = folder();
    for (args, word) in [
        (json!({"path": "@/data/*.none", "dest": "@/out"}), "no source paths were found"),
        (json!({"path": "@/data"}), "must specify \"dest\""),
        (json!({"path": "@/data", "dest": "@/data/out.gz", "remove": true}), "can not be contained in source paths"),
        (json!({"path": "@/data", "dest": "@/out", "format": "rar"}), "must be one of"),
        (json!({"path": "@/data", "dest": "@/none/out.gz"}), "none"),
    ] {
        bench.refuses("archive", args, word);
    }
}
