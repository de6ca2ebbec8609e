//! Builds the executor as a static binary for every architecture with a toolchain, and embeds it compressed in the
//! controller.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use lzma_rust2::{CheckType, FilterType, XzOptions, XzWriter};
use sha2::Digest as _;

fn main() -> Result<(), Box<dyn Error>> {
    for path in ["build.rs", "Cargo.toml", "Cargo.lock", "modules/Cargo.toml"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let out = PathBuf::from(variable("OUT_DIR")?);
    let mut list = String::from("&[\n");
    // A development build only has the larger one, which serves both purposes.
    let extents = if is_release()? { &["Common", "All"][..] } else { &["All"] };
    for (target, extent) in targets()?.iter().flat_map(|target| extents.iter().map(move |extent| (target, *extent))) {
        let path = build(target, extent, &out)?;
        watch_sources(&path.with_extension("d"))?;
        let binary = fs::read(path)?;
        let architecture = target.split('-').next().unwrap_or_default();
        let compressed = out.join(format!("executor-{architecture}-{extent}.xz"));
        fs::write(&compressed, compress(&binary, architecture)?)?;
        writeln!(
            list,
            "    Image {{ architecture: {architecture:?}, extent: Extent::{extent}, sha256: {:?}, xz: include_bytes!({:?}) }},",
            hex::encode(sha2::Sha256::digest(&binary)),
            compressed.display().to_string()
        )?;
    }
    list.push_str("]\n");
    fs::write(out.join("executors.rs"), list)?;
    Ok(())
}

/// Targets to build for: the controller's own, and the other architecture if its standard library and linker are
/// configured.
fn targets() -> Result<Vec<String>, Box<dyn Error>> {
    let own = variable("TARGET")?;
    let sysroot = Command::new(variable("RUSTC")?).args(["--print", "sysroot"]).output()?;
    let libraries = Path::new(String::from_utf8(sysroot.stdout)?.trim()).join("lib/rustlib");
    let (architecture, system) = own.split_once('-').ok_or("TARGET has no architecture")?;
    let mut targets = vec![own.clone()];
    for other in ["x86_64", "aarch64"].into_iter().filter(|other| *other != architecture) {
        let other = format!("{other}-{system}");
        let linker = format!("CARGO_TARGET_{}_LINKER", other.replace('-', "_").to_uppercase());
        println!("cargo::rerun-if-env-changed={linker}");
        if libraries.join(&other).is_dir() && env::var_os(linker).is_some() {
            targets.push(other);
        }
    }
    Ok(targets)
}

/// Runs cargo for the executor alone. Its target folder lies beside the controllers' folders, which the outer cargo has
/// locked; controllers for several targets share it.
fn build(target: &str, extent: &str, out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let own = out.ancestors().nth(4).ok_or("OUT_DIR is not inside of a target folder")?;
    let is_of_target = own.file_name().is_some_and(|name| name.to_str() == env::var("TARGET").ok().as_deref());
    let folder = own.parent().filter(|_| is_of_target).unwrap_or(own).join("executor");
    let release = is_release()?;
    let (profile, subfolder) = if release { ("executor", "executor") } else { ("dev", "debug") };
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    // Paths of the build machine are in neither program.
    let outer = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    flags.extend(outer.split('\x1f').filter(|flag| flag.starts_with("--remap-path-prefix=")).map(str::to_owned));
    // One implementation of the cipher for files between hosts: others are faster than a network, and 6 KB more.
    flags.extend(["chacha20_backend=\"sse2\"", "poly1305_backend=\"soft\""].map(|cfg| format!("--cfg={cfg}")));
    if release {
        // A program that aborts on panic needs no unwind tables. The standard library has some anyway, and link-time
        // optimisation adds them to every function, so the linker discards them.
        fs::create_dir_all(&folder)?;
        let script = folder.join("no-unwind-tables.ld");
        fs::write(&script, NO_UNWIND_TABLES)?;
        flags.push("-Cforce-unwind-tables=no".to_owned());
        flags.push("-Clink-arg=-Wl,--no-eh-frame-hdr".to_owned());
        flags.push("-Clink-arg=-T".to_owned());
        flags.push(format!("-Clink-arg={}", script.display()));
    }
    let mut command = Command::new(variable("CARGO")?);
    command
        .current_dir(variable("CARGO_MANIFEST_DIR")?)
        // The outer cargo has already fetched everything and updated Cargo.lock.
        .args(["build", "--frozen", "--quiet", "--package", "windlass-modules", "--bin", "windlass-executor"])
        // Without the documentation of the modules, which only the controller shows.
        .arg("--no-default-features")
        .args(["--profile", profile, "--target", target, "--target-dir"])
        .arg(&folder)
        // Debug information and symbols would be sent to every host.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_PROFILE_DEV_STRIP", "symbols")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    if extent == "All" {
        command.arg("--features=all");
    }
    // Settings by the outer cargo, clippy or a coverage tool are meant for the controller.
    for name in ["RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        command.env_remove(name);
    }
    // Both cargos share the outer one's limit on jobs.
    if let Some(jobs) = env::var_os("CARGO_MAKEFLAGS") {
        command.env("MAKEFLAGS", jobs);
    }
    if !command.status()?.success() {
        return Err(format!("the executor could not be built for {target}; cargo's messages are above").into());
    }
    Ok(folder.join(target).join(subfolder).join("windlass-executor"))
}

/// Reruns this script when a source of the executor changes. Cargo lists the sources as `binary: file file ...`.
fn watch_sources(list: &Path) -> Result<(), Box<dyn Error>> {
    let list = fs::read_to_string(list)?;
    let (_, files) =
        list.split_once(": ").ok_or("cargo's list of the executor's sources has another form than expected")?;
    // Cargo escapes spaces in names with a backslash.
    for file in files.trim().replace("\\ ", "\0").split(' ') {
        println!("cargo::rerun-if-changed={}", file.replace('\0', " "));
    }
    Ok(())
}

/// Discards unwind tables in the linker. The objects at the start and end of every program refer to their own part of
/// them.
const NO_UNWIND_TABLES: &str = "SECTIONS { /DISCARD/ : {
  *(EXCLUDE_FILE(*crtbegin*.o *crtend*.o) .eh_frame) *(.eh_frame_hdr) *(.gcc_except_table .gcc_except_table.*)
} } INSERT BEFORE .text;
";

fn is_release() -> Result<bool, Box<dyn Error>> {
    Ok(variable("PROFILE")? == "release")
}

fn compress(binary: &[u8], architecture: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    // Hosts must be able to unpack it with less memory than the executor's size, and with busybox.
    let mut options = XzOptions::with_preset(if is_release()? { 6 } else { 0 });
    options.set_check_sum_type(CheckType::Crc32);
    // The filter for other processors is newer than the xz of some hosts.
    if architecture == "x86_64" {
        options.prepend_pre_filter(FilterType::BcjX86, 0);
    }
    let mut encoder = XzWriter::new(Vec::new(), options)?;
    encoder.write_all(binary)?;
    Ok(encoder.finish()?)
}

fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|_| format!("cargo has not set {name}").into())
}
