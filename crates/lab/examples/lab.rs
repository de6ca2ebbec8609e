//! Drives a lab without the rest of Windlass: `lab up NODES | down | status | inventory | kill NODE | start NODE`.

use windlass_lab::{Error, Format, Lab, Options, default_directory, down, up};

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut report = |line: &str| say(line);
    match words.as_slice() {
        ["up", options @ ..] => {
            let mut wanted = Options::default();
            for option in options {
                match option.split_once('=') {
                    Some(("bridge", name)) => wanted.bridge = name.to_owned(),
                    Some(("network", network)) => wanted.network = network.parse()?,
                    Some(("memory", size)) => wanted.memory = Some(windlass_lab::parse_size(size)?),
                    Some(("cpus", cpus)) => wanted.cpus = cpus.parse().ok(),
                    Some(("mount", mount)) => wanted.mounts.push(mount.parse()?),
                    _ => wanted.nodes = option.parse().unwrap_or(0),
                }
            }
            up(&wanted, &mut report).map(|_| ())
        }
        ["down"] => down(&default_directory(), &mut report).map(|_| ()),
        ["status"] => {
            for status in Lab::open(&default_directory())?.status()? {
                say(&format!("{status:?}"));
            }
            Ok(())
        }
        ["inventory"] => {
            say(&Lab::open(&default_directory())?.inventory(Format::Ini));
            Ok(())
        }
        ["kill", name] => Lab::open(&default_directory())?.kill(name),
        ["start", name] => Lab::open(&default_directory())?.start(name, &mut report),
        _ => {
            say(
                "usage: lab up [NODES] [bridge=..] [network=..] [mount=..] | down | status | inventory | kill NODE | start NODE",
            );
            Ok(())
        }
    }
}

#[allow(clippy::print_stdout, reason = "the example has no other output")]
fn say(line: &str) {
    println!("{line}");
}
