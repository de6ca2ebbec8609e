//! `key=value` arguments: they are split or refused, and what is no option of `command` stays as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass::playbook::arguments::parse;
use windlass_yaml::Span;

fuzz_target!(|text: &str| {
    let span = Span::none();
    let options = parse(text, false, &span);
    let free = parse(text, true, &span);
    assert_eq!(options.is_ok(), free.is_ok(), "{text:?}");
    if let Ok(map) = free
        && map.len() == 1
        && let Some(raw) = map.get("_raw_params").and_then(|node| node.as_str())
        && !raw.is_empty()
    {
        let again =
            parse(raw, true, &span).map(|map| map.get("_raw_params").and_then(|n| n.as_str().map(str::to_owned)));
        assert_eq!(again.ok().flatten().as_deref(), Some(raw), "{text:?}");
    }
});
