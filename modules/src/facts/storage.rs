//! Mounted file systems and block devices, from `/proc/self/mounts`, `/sys/block` and udev's links in `/dev/disk`.

use std::{collections::BTreeMap, sync::mpsc, time::Duration};

use serde_json::{Value, json};

use super::{Facts, Root};
use crate::Map;

/// `mounts`, `devices` and `device_links`.
pub(crate) fn collect(root: &Root, timeout: Duration, facts: &mut Facts) {
    let links = device_links(root);
    let mountinfo = root.read("/proc/self/mountinfo").unwrap_or_default();
    let uuids = links.get("uuids").cloned().unwrap_or_default();
    facts.set(
        "mounts",
        mounts(&root.read("/proc/self/mounts").unwrap_or_default(), &bind_mounts(&mountinfo), &uuids, timeout),
    );
    facts.set("devices", devices(root, &links));
    facts.set("device_links", json!(links));
}

type Links = BTreeMap<&'static str, BTreeMap<String, Vec<String>>>;

/// Device names from udev, by device, and the devices built on others.
fn device_links(root: &Root) -> Links {
    let by = |kind: &str| {
        let folder = format!("/dev/disk/by-{kind}");
        let mut links: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in root.names(&folder) {
            if let Some(device) = root.link_name(&format!("{folder}/{name}")) {
                links.entry(device).or_default().push(name);
            }
        }
        links
    };
    let mut masters: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for device in root.names("/sys/block") {
        for slave in root.names(&format!("/sys/block/{device}/slaves")) {
            masters.entry(slave).or_default().push(device.clone());
        }
    }
    BTreeMap::from([("ids", by("id")), ("uuids", by("uuid")), ("labels", by("label")), ("masters", masters)])
}

/// Mount points that show a subtree of a file system instead of its root.
fn bind_mounts(mountinfo: &str) -> Vec<String> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let lines = mountinfo.lines().map(words);
    lines
        .filter(|words| words.get(3).is_some_and(|root| root != "/"))
        .filter_map(|words| words.get(4).map(|at| unescape(at)))
        .collect()
}

/// Decodes the octal escapes of blanks and other separators in the kernel's tables.
pub(crate) fn unescape(word: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn mounts(table: &str, binds: &[String], uuids: &BTreeMap<String, Vec<String>>, timeout: Duration) -> Vec<Value> {
    // A later mount on the same point hides the earlier one.
    let mut mounts = Map::new();
    for line in table.lines() {
        let fields: Vec<String> = line.split_whitespace().map(unescape).collect();
        let [device, mount, fstype, options, dump, passno] = fields.as_slice() else { continue };
        if (!device.starts_with(['/', '\\']) && !device.contains(":/")) || fstype == "none" {
            continue;
        }
        let bound = binds.contains(mount) && !options.split(',').any(|option| option == "bind");
        let name = device.rsplit('/').next().unwrap_or_default();
        let mut entry = Map::new();
        entry.insert("mount".into(), mount.as_str().into());
        entry.insert("device".into(), device.as_str().into());
        entry.insert("fstype".into(), fstype.as_str().into());
        entry.insert("options".into(), if bound { format!("{options},bind") } else { options.clone() }.into());
        entry.insert("dump".into(), dump.parse().unwrap_or(0).into());
        entry.insert("passno".into(), passno.parse().unwrap_or(0).into());
        entry.insert(
            "uuid".into(),
            uuids.get(name).and_then(|uuids| uuids.first()).map_or("N/A", String::as_str).into(),
        );
        match size_of(mount, timeout) {
            Some(size) => entry.extend(size),
            None => _ = entry.insert("note".into(), "Could not get extra information due to timeout".into()),
        }
        mounts.insert(mount.clone(), entry.into());
    }
    mounts.into_iter().map(|(_, entry)| entry).collect()
}

/// The sizes of a file system. Queried in a thread, because a dead network file system may block forever.
pub(super) fn size_of(mount: &str, timeout: Duration) -> Option<Map> {
    let (sender, receiver) = mpsc::channel();
    let path = mount.to_owned();
    std::thread::spawn(move || sender.send(rustix::fs::statvfs(path.as_str())));
    let Ok(stat) = receiver.recv_timeout(timeout).ok()? else { return Some(Map::new()) };
    let mut size = Map::new();
    for (key, value) in [
        ("size_total", stat.f_frsize * stat.f_blocks),
        ("size_available", stat.f_frsize * stat.f_bavail),
        ("block_size", stat.f_bsize),
        ("block_total", stat.f_blocks),
        ("block_available", stat.f_bavail),
        ("block_used", stat.f_blocks.saturating_sub(stat.f_bavail)),
        ("inode_total", stat.f_files),
        ("inode_available", stat.f_favail),
        ("inode_used", stat.f_files.saturating_sub(stat.f_favail)),
    ] {
        size.insert(key.to_owned(), value.into());
    }
    Some(size)
}

fn links_of(links: &Links, device: &str) -> Value {
    let of = |kind: &str| links.get(kind).and_then(|kind| kind.get(device)).cloned().unwrap_or_default();
    json!({ "ids": of("ids"), "uuids": of("uuids"), "labels": of("labels"), "masters": of("masters") })
}

fn devices(root: &Root, links: &Links) -> Map {
    let mut devices = Map::new();
    for name in root.names("/sys/block") {
        let folder = format!("/sys/block/{name}");
        let read = |file: &str| root.line(&format!("{folder}/{file}"));
        let mut device = Map::new();
        let virtual_device = root.real_path(&folder).is_some_and(|path| path.contains("/virtual/"))
            || !root.exists(&format!("{folder}/device"));
        device.insert("virtual".into(), i32::from(virtual_device || name.starts_with("vd")).into());
        device.insert("links".into(), links_of(links, &name));
        for file in ["vendor", "model", "sas_address", "sas_device_handle"] {
            device.insert(file.to_owned(), read(&format!("device/{file}")).into());
        }
        if let Some(serial) = read("device/serial") {
            device.insert("serial".into(), serial.into());
        }
        device.insert("removable".into(), read("removable").into());
        device.insert("rotational".into(), read("queue/rotational").into());
        device.insert("support_discard".into(), read("queue/discard_granularity").into());
        if let Some(wwn) = read("device/wwid") {
            device.insert("wwn".into(), wwn.into());
        }
        let sector_size = read("queue/logical_block_size").unwrap_or_else(|| "512".to_owned());
        let partitions: Map = root
            .names(&folder)
            .into_iter()
            .filter(|partition| root.exists(&format!("{folder}/{partition}/partition")))
            .map(|partition| {
                let value = partition_facts(root, &folder, &partition, links);
                (partition, value)
            })
            .collect();
        device.insert("partitions".into(), partitions.into());
        let scheduler = read("queue/scheduler").unwrap_or_default();
        let chosen = scheduler.split_once('[').and_then(|(_, rest)| rest.split(']').next());
        let chosen = chosen.unwrap_or(if scheduler == "none" { "none" } else { "" });
        device.insert("scheduler_mode".into(), chosen.into());
        let sectors: u64 = read("size").and_then(|size| size.parse().ok()).unwrap_or(0);
        device.insert("sectors".into(), sectors.into());
        device.insert("sectorsize".into(), sector_size.into());
        device.insert("size".into(), human(sectors.saturating_mul(512)).into());
        device.insert("host".into(), "".into());
        device.insert("holders".into(), holders(root, &folder).into());
        devices.insert(name, device.into());
    }
    devices
}

/// Devices built on a device, under the device mapper's own names in addition to the kernel's.
fn holders(root: &Root, folder: &str) -> Vec<String> {
    let names = root.names(&format!("{folder}/holders")).into_iter();
    let mapped = |holder: String| match root.line(&format!("/sys/block/{holder}/dm/name")) {
        Some(name) => name,
        None => holder,
    };
    names.map(mapped).collect()
}

fn partition_facts(root: &Root, folder: &str, name: &str, links: &Links) -> Value {
    let read = |file: &str| root.line(&format!("{folder}/{name}/{file}"));
    let sectors: u64 = read("size").and_then(|size| size.parse().ok()).unwrap_or(0);
    let uuid = links.get("uuids").and_then(|uuids| uuids.get(name)).and_then(|uuids| uuids.first()).cloned();
    json!({
        "links": links_of(links, name),
        "start": read("start").unwrap_or_else(|| "0".to_owned()),
        "sectors": sectors,
        "sectorsize": read("queue/logical_block_size").and_then(|size| size.parse::<u64>().ok()).unwrap_or(512),
        "size": human(sectors.saturating_mul(512)),
        "uuid": uuid,
        "holders": holders(root, &format!("{folder}/{name}")),
    })
}

/// A size in the largest fitting unit, with two decimals.
fn human(bytes: u64) -> String {
    let units = [("TB", 40), ("GB", 30), ("MB", 20), ("KB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.2} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes:.2} Bytes", bytes = bytes as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::root::tests::tree, *};

    #[test]
    fn mounts_pseudo_omitted_names_unescaped() {
        let table = "/dev/sda1 / ext4 rw 0 1\nproc /proc proc rw 0 0\nnas:/export /mnt/with\\040space nfs rw 0 0\nnas:/other /mnt/with\\040space nfs ro 0 0\n";
        let found = mounts(
            table,
            &["/".to_owned()],
            &BTreeMap::from([("sda1".to_owned(), vec!["ab-cd".to_owned()])]),
            Duration::from_secs(5),
        );
        assert_eq!(found.len(), 2);
        assert_eq!(found[0]["uuid"], "ab-cd");
        assert_eq!(found[0]["options"], "rw,bind");
        assert!(found[0]["size_total"].as_u64().unwrap() > 0);
        assert_eq!(found[1]["mount"], "/mnt/with space");
        assert_eq!(found[1]["device"], "nas:/other");
    }

    #[test]
    fn device_with_partition_described() {
        let (_folder, root) = tree(&[
            ("/sys/block/sda/size", "2097152\n"),
            ("/sys/block/sda/removable", "0\n"),
            ("/sys/block/sda/device/model", "QEMU HARDDISK\n"),
            ("/sys/block/sda/queue/scheduler", "none [mq-deadline]\n"),
            ("/sys/block/sda/sda1/partition", "1\n"),
            ("/sys/block/sda/sda1/size", "2048\n"),
            ("/sys/block/sda/sda1/start", "2048\n"),
        ]);
        let devices = devices(&root, &device_links(&root));
        assert_eq!(devices["sda"]["size"], "1.00 GB");
        assert_eq!(devices["sda"]["model"], "QEMU HARDDISK");
        assert_eq!(devices["sda"]["scheduler_mode"], "mq-deadline");
        assert_eq!(devices["sda"]["partitions"]["sda1"]["size"], "1.00 MB");
        assert_eq!(devices["sda"]["partitions"]["sda1"]["start"], "2048");
    }
}
