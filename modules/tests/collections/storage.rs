use std::process::Command;

use serde_json::json;
use windlass_testing::{has, has_all};

use crate::case::Bench;
use crate::with;

/// An image of the given size in megabytes.
fn image(bench: &Bench, name: &str, megabytes: u64) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(bench.path(name)).unwrap();
    file.set_len(megabytes << 20).unwrap();
}

#[test]
fn file_system_created_grown_and_wiped() {
    if !has_all(&["mkfs.ext4", "blkid", "wipefs"]) {
        return;
    }
    let bench = Bench::new();
    image(&bench, "disk", 8);
    let args = json!({"dev": "@/disk", "fstype": "ext4", "opts": "-q"});
    bench.converges("community.general.filesystem", args.clone());
    bench.refuses("filesystem", json!({"dev": "@/disk", "type": "swap"}), "is already used as ext4, use force=true");
    image(&bench, "disk", 16);
    let grown = bench.converges("filesystem", with(&args, json!({"resizefs": true})));
    assert!(grown["msg"].as_str().unwrap().contains("Resizing the filesystem") || grown["msg"] == "", "{grown}");
    let whole = bench.rests("filesystem", with(&args, json!({"resizefs": true})));
    assert!(whole["msg"].as_str().unwrap().starts_with("Ext4 filesystem is using the whole device"), "{whole}");
    let forced = bench.run("filesystem", json!({"device": "@/disk", "type": "swap", "force": true}), false);
    assert_eq!(forced, json!({"changed": true}));
    bench.converges("filesystem", json!({"dev": "@/disk", "state": "absent"}));
    let gone = bench.rests("filesystem", json!({"dev": "@/none", "state": "absent"}));
    assert!(gone["msg"].as_str().unwrap().ends_with("/none not found."));
}

#[test]
fn impossible_file_system_refused() {
    if !has("blkid") {
        return;
    }
    let bench = Bench::new();
    image(&bench, "disk", 1);
    for (args, word) in [
        (json!({"dev": "@/none", "fstype": "ext4"}), "not found"),
        (json!({"dev": "@/disk"}), "state is present but all of the following are missing: fstype"),
        (json!({"dev": "@/disk", "fstype": "zfs"}), "value of fstype must be one of"),
        (json!({"dev": "@/disk", "fstype": "swap", "uuid": "random"}), "does not support UUID option"),
        (json!({"dev": "@/disk", "fstype": "ext4", "uuid": "random", "resizefs": true}), "mutually exclusive"),
    ] {
        bench.refuses("filesystem", args, word);
    }
}

#[test]
fn partition_created_flagged_and_removed() {
    if !has("parted") {
        return;
    }
    let bench = Bench::new();
    image(&bench, "disk", 16);
    let args = json!({"device": "@/disk", "number": 1, "label": "gpt", "part_end": "50%", "name": "first",
        "flags": ["lvm"], "unit": "MiB", "state": "present"});
    let result = bench.converges("community.general.parted", args.clone());
    assert_eq!(
        result["script"],
        json!([
            "unit",
            "MiB",
            "mklabel",
            "gpt",
            "mkpart",
            "primary",
            "0%",
            "50%",
            "unit",
            "MiB",
            "name",
            "1",
            "\"first\"",
            "set",
            "1",
            "lvm",
            "on"
        ])
    );
    assert_eq!((&result["disk"]["table"], &result["disk"]["unit"]), (&json!("gpt"), &json!("mib")));
    let partition = &result["partitions"][0];
    assert_eq!(
        (&partition["num"], &partition["begin"], &partition["name"], &partition["flags"]),
        (&json!(1), &json!(0.02), &json!("first"), &json!(["lvm"]))
    );
    let resized = with(&args, json!({"part_end": "12MiB", "resize": true}));
    let result = bench.converges("parted", resized);
    assert_eq!(result["script"], json!(["resizepart", "1", "12MiB"]));
    assert_eq!(result["partitions"][0]["end"], 12.0);
    bench.converges("parted", with(&args, json!({"flags": ["boot", "esp"], "name": "efi"})));
    let looked = bench.rests("parted", json!({"device": "@/disk", "unit_preserve_case": true}));
    assert_eq!((&looked["script"], &looked["disk"]["unit"]), (&json!(["unit", "KiB", "print"]), &json!("KiB")));
    bench.converges("parted", json!({"device": "@/disk", "number": 1, "label": "gpt", "state": "absent"}));
    for (args, word) in [
        (json!({"device": "@/none"}), "Error while getting device information"),
        (json!({"device": "@/disk", "number": 0, "state": "absent"}), "must be greater then 0"),
        (json!({"device": "@/disk", "part_end": "7parsec"}), "part_end"),
        (json!({"device": "@/disk", "state": "present"}), "missing: number"),
    ] {
        bench.refuses("parted", args, word);
    }
}

/// A disk on a loop device, detached on drop.
struct Loop(String);

impl Loop {
    fn new(bench: &Bench, name: &str) -> Option<Loop> {
        image(bench, name, 32);
        let output = Command::new("losetup").args(["-f", "--show"]).arg(bench.path(name)).output().unwrap();
        let device = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        if output.status.success() && !device.is_empty() {
            return Some(Loop(device));
        }
        // Containers have the program, but may lack the devices.
        windlass_testing::lacks("loop-devices");
        None
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

#[test]
fn volume_group_created_extended_and_removed() {
    if !has_all(&["vgcreate", "losetup"]) {
        return;
    }
    let bench = Bench::new();
    let (Some(one), Some(other)) = (Loop::new(&bench, "one"), Loop::new(&bench, "other")) else { return };
    let name = format!("windlass{}", std::process::id());
    let both = |args| {
        let predicted = bench.run("community.general.lvg", args, true);
        assert_eq!(predicted["changed"], true, "{predicted}");
    };
    for (args, changed) in [
        (json!({"vg": name, "pvs": [one.0], "pesize": "8"}), true),
        (json!({"vg": name, "pvs": [one.0]}), false),
        (json!({"vg": name, "pvs": [one.0, other.0]}), true),
        (json!({"vg": name, "pvs": [one.0], "remove_extra_pvs": false}), false),
        (json!({"vg": name, "pvs": [one.0]}), true),
        (json!({"vg": name, "reset_vg_uuid": true}), true),
        (json!({"vg": name, "state": "absent"}), true),
        (json!({"vg": name, "state": "absent"}), false),
    ] {
        if changed {
            both(args.clone());
        }
        let result = bench.run("lvg", args.clone(), false);
        assert_eq!(result, json!({"changed": changed}), "{args}");
    }
    for (args, word) in [
        (json!({"vg": name}), "No physical volumes given."),
        (json!({"vg": name, "pvs": ["/dev/none"]}), "Device /dev/none not found."),
        (json!({"vg": name, "state": "gone"}), "value of state must be one of"),
    ] {
        bench.refuses("lvg", args, word);
    }
    let _ = Command::new("pvremove").args([&one.0, &other.0]).status();
}

/// A volume group of 1000 MiB with one volume of 100 MiB, as LVM lists them; changes are recorded.
fn volumes() -> Bench {
    let list = |text: &str| format!("case \"$*\" in *nothere*) exit 5;; esac\ncat <<'E'\n{text}\nE\n");
    let log = |name: &str| format!("[ \"$1\" = --test ] || echo {name} \"$@\" >> $ROOT/log\n");
    let mut bench = Bench::new()
        .program("vgs", &list("  data;1000.00;900.00;4.00"))
        .program("lvs", &list("  logs;100.00;-wi-a-----\n  [pool];200.00;twi-aotz--\n  off;50.00;-wi-------"));
    for name in ["lvcreate", "lvextend", "lvreduce", "lvremove", "lvchange"] {
        bench = bench.program(name, &log(name));
    }
    bench.write("log", "");
    bench
}

#[test]
fn logical_volume_managed_by_lvm_commands() {
    for (args, told) in [
        (json!({"lv": "new", "size": "512"}), "lvcreate --yes -n new -L 512m data\n"),
        (
            json!({"lv": "new", "size": "100%FREE", "pvs": "/dev/sda"}),
            "lvcreate --yes -n new -l 100%FREE data /dev/sda\n",
        ),
        (json!({"lv": "logs", "snapshot": "snap", "size": "10g"}), "lvcreate --yes -L 10g -s -n snap data/logs\n"),
        (json!({"lv": "thin", "thinpool": "pool", "size": "10g"}), "lvcreate --yes -n thin -V 10g -T data/pool\n"),
        (json!({"thinpool": "fresh", "size": "10g"}), "lvcreate --yes -L 10g -T data/fresh\n"),
        (
            json!({"lv": "new", "size": "8m", "opts": "--type 'cache-pool'"}),
            "lvcreate --yes -n new -L 8m --type cache-pool data\n",
        ),
        (json!({"lv": "logs", "size": "200m", "resizefs": true}), "lvextend --resizefs -L 200m data/logs\n"),
        (json!({"lv": "logs", "size": "+50%FREE"}), "lvextend -l +50%FREE data/logs\n"),
        (json!({"lv": "logs", "size": "40m", "force": true}), "lvreduce --force -L 40m data/logs\n"),
        (json!({"lv": "logs", "active": false}), "lvchange -an data/logs\n"),
        (json!({"lv": "off", "size": "60"}), "lvextend -L 60m data/off\nlvchange -ay data/off\n"),
        (json!({"lv": "logs", "state": "absent", "force": true}), "lvremove --force data/logs\n"),
    ] {
        let bench = volumes();
        let args = with(&args, json!({"vg": "data"}));
        let before = bench.snapshot();
        assert_eq!(bench.run("community.general.lvol", args.clone(), true)["changed"], true, "{args}");
        assert_eq!(bench.snapshot(), before, "check mode changed something");
        let result = bench.run("lvol", args.clone(), false);
        assert_eq!((&result["changed"], bench.read("log")), (&json!(true), told.to_owned()), "{args}: {result}");
    }
    let bench = volumes();
    let result = bench.rests("lvol", json!({"vg": "data", "lv": "logs", "size": "100"}));
    assert_eq!(result, json!({"changed": false, "vg": "data", "lv": "logs", "size": 100.0}));
    bench.rests("lvol", json!({"vg": "data", "lv": "logs", "size": "40", "shrink": false}));
    bench.rests("lvol", json!({"vg": "nothere", "lv": "logs", "state": "absent"}));
    for (args, word) in [
        (json!({"vg": "data", "size": "1"}), "one of the following is required: lv, thinpool"),
        (json!({"vg": "nothere", "lv": "x", "size": "1"}), "Volume group nothere does not exist."),
        (json!({"vg": "data", "lv": "x", "size": "big"}), "Bad size specification of 'bi'"),
        (json!({"vg": "data", "lv": "x", "size": "120%VG"}), "cannot be larger than 100%"),
        (json!({"vg": "data", "lv": "x"}), "No size given."),
        (json!({"vg": "data", "lv": "logs", "size": "40"}), "Sorry, no shrinking of logs without force=true."),
        (json!({"vg": "data", "lv": "logs", "state": "absent"}), "Sorry, no removal of logical volume logs"),
        (json!({"vg": "data", "lv": "logs", "size": "+100%VG"}), "Not enough free space left"),
    ] {
        bench.refuses("lvol", args, word);
    }
}
