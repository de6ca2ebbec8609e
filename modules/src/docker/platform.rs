//! Platforms such as `linux/arm64/v8`, whose parts have several names.

/// Operating systems and architectures under containerd's names.
const SYSTEMS: &[&str] = &[
    "aix",
    "android",
    "darwin",
    "dragonfly",
    "freebsd",
    "hurd",
    "illumos",
    "ios",
    "js",
    "linux",
    "nacl",
    "netbsd",
    "openbsd",
    "plan9",
    "solaris",
    "windows",
    "zos",
];
const ARCHITECTURES: &[&str] = &[
    "386",
    "amd64",
    "amd64p32",
    "arm",
    "armbe",
    "arm64",
    "arm64be",
    "ppc64",
    "ppc64le",
    "loong64",
    "mips",
    "mipsle",
    "mips64",
    "mips64le",
    "mips64p32",
    "mips64p32le",
    "ppc",
    "riscv",
    "riscv64",
    "s390",
    "s390x",
    "sparc",
    "sparc64",
    "wasm",
];

/// A platform; unknown parts are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Platform {
    system: String,
    architecture: String,
    variant: String,
}

impl Platform {
    /// Parses a platform. Missing parts come from the engine.
    pub(super) fn parse(text: &str, engine: &Platform) -> Result<Platform, String> {
        let invalid = |why: &str| format!("Invalid platform string \"{text}\": {why}");
        let parts: Vec<&str> = text.splitn(3, '/').collect();
        let allowed = |part: &&str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        if !parts.iter().all(allowed) {
            return Err(invalid("a part of it is empty or has invalid characters"));
        }
        match parts.as_slice() {
            [one] => {
                let system = system(one);
                if SYSTEMS.contains(&system.as_str()) {
                    let (architecture, variant) = architecture(&engine.architecture, "");
                    return Ok(Platform { system, architecture, variant });
                }
                let (architecture, variant) = architecture(one, "");
                if !ARCHITECTURES.contains(&architecture.as_str()) {
                    return Err(invalid("unknown OS or architecture"));
                }
                Ok(Platform { system: self::system(&engine.system), architecture, variant })
            }
            [first, second] => {
                let (architecture, variant) = architecture(second, "");
                let variant = if architecture == "arm" && variant == "v7" { String::new() } else { variant };
                Ok(Platform { system: system(first), architecture, variant })
            }
            [first, second, third, ..] => {
                let (architecture, variant) = architecture(second, third);
                let variant = if architecture == "arm64" && variant.is_empty() { "v8".to_owned() } else { variant };
                Ok(Platform { system: system(first), architecture, variant })
            }
            [] => Err(invalid("it is empty")),
        }
    }

    /// Platform of an image. Missing parts come from the engine.
    pub(super) fn of_image(system_name: &str, architecture_name: &str, variant: &str, engine: &Platform) -> Platform {
        let system_name = if system_name.is_empty() { system(&engine.system) } else { system_name.to_owned() };
        if architecture_name.is_empty() && !engine.architecture.is_empty() {
            let (architecture, variant) = architecture(&engine.architecture, variant);
            return Platform { system: system_name, architecture, variant };
        }
        Platform { system: system_name, architecture: architecture_name.to_owned(), variant: variant.to_owned() }
    }

    /// Platform of the engine, which reports only system and architecture.
    pub(super) fn of_engine(system: &str, architecture: &str) -> Platform {
        Platform { system: system.to_owned(), architecture: architecture.to_owned(), variant: String::new() }
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [&self.system, &self.architecture, &self.variant];
        let known: Vec<&str> = parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        f.write_str(&known.join("/"))
    }
}

fn system(name: &str) -> String {
    let name = name.to_lowercase();
    if name == "macos" { "darwin".to_owned() } else { name }
}

fn architecture(name: &str, variant: &str) -> (String, String) {
    let (name, variant) = (name.to_lowercase(), variant.to_lowercase());
    let (name, variant) = match (name.as_str(), variant.as_str()) {
        ("i386", _) => ("386", ""),
        ("x86_64" | "x86-64" | "amd64", "v1") => ("amd64", ""),
        ("x86_64" | "x86-64" | "amd64", variant) => ("amd64", variant),
        ("aarch64" | "arm64", "8" | "v8") => ("arm64", ""),
        ("aarch64" | "arm64", variant) => ("arm64", variant),
        ("armhf", _) => ("arm", "v7"),
        ("armel", _) => ("arm", "v6"),
        ("arm", "" | "7") => ("arm", "v7"),
        ("arm", "5") => ("arm", "v5"),
        ("arm", "6") => ("arm", "v6"),
        ("arm", "8") => ("arm", "v8"),
        (name, variant) => (name, variant),
    };
    (name.to_owned(), variant.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_aliases_normalised() {
        let engine = Platform::of_engine("linux", "x86_64");
        let shown = |text: &str| Platform::parse(text, &engine).unwrap().to_string();
        assert_eq!(shown("linux"), "linux/amd64");
        assert_eq!(shown("x86_64"), "linux/amd64");
        assert_eq!(shown("linux/arm"), "linux/arm");
        assert_eq!(shown("linux/arm64/8"), "linux/arm64/v8");
        assert_eq!(shown("Linux/AARCH64"), "linux/arm64");
        assert!(Platform::parse("linux//v1", &engine).is_err() && Platform::parse("toaster", &engine).is_err());
        assert_eq!(Platform::of_image("linux", "amd64", "", &engine).to_string(), "linux/amd64");
    }
}
