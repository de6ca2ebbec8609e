//! Processors, memory, uptime and firmware, from `/proc` and the DMI tables in `/sys` (SMBIOS, DMTF DSP0134).

use std::collections::BTreeMap;

use serde_json::json;

use super::{Facts, Root};

/// Processor, memory, uptime and firmware facts.
pub(crate) fn collect(root: &Root, facts: &mut Facts) {
    let cpuinfo = root.read("/proc/cpuinfo").unwrap_or_default();
    let machine = rustix::system::uname().machine().to_string_lossy().into_owned();
    processor(&cpuinfo, &machine, root.exists("/proc/xen") && !root.exists("/sys/hypervisor/properties"), facts);
    memory(&root.read("/proc/meminfo").unwrap_or_default(), facts);
    if let Some(seconds) = root.line("/proc/uptime").and_then(|line| line.split('.').next()?.parse::<u64>().ok()) {
        facts.set("uptime_seconds", seconds);
    }
    firmware(root, facts);
    facts.set("lvm", "N/A");
}

fn processor(cpuinfo: &str, machine: &str, xen: bool, facts: &mut Facts) {
    let mut words: Vec<String> = Vec::new();
    let (mut vendors, mut models, mut numbered) = (0usize, 0usize, 0usize);
    let mut sockets: BTreeMap<String, usize> = BTreeMap::new();
    let mut cores: BTreeMap<String, usize> = BTreeMap::new();
    let (mut physical, mut core) = (String::new(), String::new());
    let mut flags: Option<Vec<&str>> = None;
    for line in cpuinfo.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        match key {
            "model name" | "Processor" | "vendor_id" | "cpu" | "Vendor" | "processor" => {
                words.push(value.to_owned());
                match key {
                    "vendor_id" => vendors += 1,
                    "model name" => models += 1,
                    "processor" => numbered += 1,
                    _ => {}
                }
            }
            "flags" | "Features" => flags = flags.or_else(|| Some(value.split_whitespace().collect())),
            "physical id" => {
                physical = value.to_owned();
                sockets.entry(physical.clone()).or_insert(1);
            }
            "core id" => {
                core = value.to_owned();
                cores.entry(core.clone()).or_insert(1);
            }
            "cpu cores" => _ = sockets.insert(physical.clone(), value.parse().unwrap_or(1)),
            "siblings" => _ = cores.insert(core.clone(), value.parse().unwrap_or(1)),
            "# processors" => numbered = value.parse().unwrap_or(numbered),
            _ => {}
        }
    }
    let by_number = ["arm", "aarch", "ppc", "riscv"].iter().any(|prefix| machine.starts_with(prefix));
    let occurrences = if by_number || vendors == 0 || vendors != models { numbered } else { vendors };
    let (count, per_socket, threads) = if xen {
        (occurrences, occurrences, 1)
    } else {
        let per_socket = sockets.values().next().copied().filter(|cores| *cores > 0).unwrap_or(1);
        let siblings = cores.values().next().copied().unwrap_or(per_socket);
        (if sockets.is_empty() { occurrences } else { sockets.len() }, per_socket, (siblings / per_socket).max(1))
    };
    facts.set("processor", words);
    facts.set("processor_count", count);
    facts.set("processor_cores", per_socket);
    facts.set("processor_threads_per_core", threads);
    facts.set("processor_vcpus", if xen { occurrences } else { count * per_socket * threads });
    let usable = rustix::thread::sched_getaffinity(None).map(|set| set.count() as usize).unwrap_or(numbered);
    facts.set("processor_nproc", usable);
    if let Some(flags) = flags {
        facts.set("flags", flags);
    }
}

fn memory(meminfo: &str, facts: &mut Facts) {
    let values: BTreeMap<&str, i64> = meminfo
        .lines()
        .filter_map(|line| {
            let (key, rest) = line.split_once(':')?;
            Some((key, rest.split_whitespace().next()?.parse::<i64>().ok()? / 1024))
        })
        .collect();
    let mb = |key: &str| values.get(key).copied().unwrap_or(0);
    let (total, free) = (mb("MemTotal"), mb("MemFree"));
    let without_cache = free + mb("Cached") + mb("Buffers");
    let (swap_total, swap_free) = (mb("SwapTotal"), mb("SwapFree"));
    facts.set("memtotal_mb", total);
    facts.set("memfree_mb", free);
    facts.set("swaptotal_mb", swap_total);
    facts.set("swapfree_mb", swap_free);
    facts.set(
        "memory_mb",
        json!({
            "real": { "total": total, "used": total - free, "free": free },
            "nocache": { "free": without_cache, "used": total - without_cache },
            "swap": { "total": swap_total, "free": swap_free, "used": swap_total - swap_free, "cached": mb("SwapCached") },
        }),
    );
}

/// Chassis types of the SMBIOS specification, by number.
const FORM_FACTORS: &[&str] = &[
    "Unknown",
    "Other",
    "Unknown",
    "Desktop",
    "Low Profile Desktop",
    "Pizza Box",
    "Mini Tower",
    "Tower",
    "Portable",
    "Laptop",
    "Notebook",
    "Hand Held",
    "Docking Station",
    "All In One",
    "Sub Notebook",
    "Space-saving",
    "Lunch Box",
    "Main Server Chassis",
    "Expansion Chassis",
    "Sub Chassis",
    "Bus Expansion Chassis",
    "Peripheral Chassis",
    "RAID Chassis",
    "Rack Mount Chassis",
    "Sealed-case PC",
    "Multi-system",
    "CompactPCI",
    "AdvancedTCA",
    "Blade",
    "Blade Enclosure",
    "Tablet",
    "Convertible",
    "Detachable",
    "IoT Gateway",
    "Embedded PC",
    "Mini PC",
    "Stick PC",
];

fn firmware(root: &Root, facts: &mut Facts) {
    for (fact, file) in [
        ("bios_date", "bios_date"),
        ("bios_vendor", "bios_vendor"),
        ("bios_version", "bios_version"),
        ("board_asset_tag", "board_asset_tag"),
        ("board_name", "board_name"),
        ("board_serial", "board_serial"),
        ("board_vendor", "board_vendor"),
        ("board_version", "board_version"),
        ("chassis_asset_tag", "chassis_asset_tag"),
        ("chassis_serial", "chassis_serial"),
        ("chassis_vendor", "chassis_vendor"),
        ("chassis_version", "chassis_version"),
        ("form_factor", "chassis_type"),
        ("product_name", "product_name"),
        ("product_serial", "product_serial"),
        ("product_uuid", "product_uuid"),
        ("product_version", "product_version"),
        ("system_vendor", "sys_vendor"),
    ] {
        let value = root
            .line(&format!("/sys/devices/virtual/dmi/id/{file}"))
            .or_else(|| root.line(&format!("/sys/class/dmi/id/{file}")));
        let value = value.unwrap_or_else(|| "NA".to_owned());
        let form = (fact == "form_factor").then(|| FORM_FACTORS.get(value.parse::<usize>().ok()?)).flatten();
        facts.set(fact, form.map_or(value, |form| (*form).to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_sockets_cores_threads_counted() {
        let one = |number: usize, socket: usize, core: usize| {
            format!(
                "processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nphysical id\t: {socket}\nsiblings\t: 4\ncore id\t\t: {core}\ncpu cores\t: 2\nflags\t\t: fpu vme\n\n"
            )
        };
        let text: String = (0..8).map(|number| one(number, number / 4, number % 2)).collect();
        let mut facts = Facts::default();
        processor(&text, "x86_64", false, &mut facts);
        let number = |key: &str| facts.value(key).and_then(serde_json::Value::as_u64);
        assert_eq!(number("processor_count"), Some(2));
        assert_eq!(number("processor_cores"), Some(2));
        assert_eq!(number("processor_threads_per_core"), Some(2));
        assert_eq!(number("processor_vcpus"), Some(8));
        assert_eq!(facts.value("processor").and_then(|words| words.get(2)), Some(&json!("Xeon")));
        assert_eq!(facts.value("flags"), Some(&json!(["fpu", "vme"])));
    }

    #[test]
    fn cpuinfo_arm_board_processors_counted() {
        let text = "processor\t: 0\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd\n\nprocessor\t: 1\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd\n";
        let mut facts = Facts::default();
        processor(text, "aarch64", false, &mut facts);
        assert_eq!(facts.value("processor_count"), Some(&json!(2)));
        assert_eq!(facts.value("processor_vcpus"), Some(&json!(2)));
        assert_eq!(facts.value("processor"), Some(&json!(["0", "1"])));
    }

    #[test]
    fn meminfo_converted_to_megabytes_with_and_without_caches() {
        let mut facts = Facts::default();
        memory(
            "MemTotal: 8192000 kB\nMemFree: 1024000 kB\nBuffers: 102400 kB\nCached: 2048000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
            &mut facts,
        );
        assert_eq!(facts.value("memtotal_mb"), Some(&json!(8000)));
        assert_eq!(facts.value("memory_mb").map(|memory| memory["nocache"]["free"].clone()), Some(json!(3100)));
    }
}
