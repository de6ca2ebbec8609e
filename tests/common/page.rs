//! Checks pages as hostile data would bend them: their policies, elements and attributes.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

/// Elements of pages.
const ELEMENTS: &[&str] = &[
    "a", "article", "bdi", "body", "br", "button", "caption", "code", "dd", "details", "div", "dl", "dt", "footer",
    "form", "h1", "h2", "h3", "head", "header", "html", "input", "label", "li", "main", "meta", "nav", "option", "p",
    "pre", "rect", "section", "select", "span", "summary", "svg", "table", "tbody", "td", "textarea", "th", "thead",
    "title", "tr", "ul",
];

/// The policy allows the page's own script and style, by their hashes, and nothing else. Returns its start.
#[track_caller]
pub(crate) fn check_policy(page: &str) -> String {
    let inside = |name: &str| -> Option<String> {
        let (_, rest) = page.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>")).unwrap().0.to_owned())
    };
    let hash = |text: String| {
        format!("'sha256-{}'", base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes())))
    };
    let style = hash(inside("style").unwrap());
    let script = inside("script").map_or_else(|| "'none'".to_owned(), hash);
    let policy = format!("default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'");
    assert!(page.contains(&format!("content=\"{policy}; ")), "{policy}\n{page}");
    assert!(page.find("Content-Security-Policy").unwrap() < page.find("<style>").unwrap());
    policy
}

/// The page is well-formed, and no element or attribute could run or load anything. Returns the number of elements.
#[track_caller]
pub(crate) fn check_elements(page: &str, is_address: impl Fn(&str) -> bool) -> usize {
    let without = |page: &str, name: &str| match page.split_once(&format!("<{name}>")) {
        Some((before, rest)) => before.to_owned() + rest.split_once(&format!("</{name}>")).unwrap().1,
        None => page.to_owned(),
    };
    let page = without(&without(page, "style"), "script");
    let document = uppsala::parse(&page).unwrap_or_else(|error| panic!("{error}\n{page}"));
    let mut count = 0;
    for node in document.descendants(document.root()) {
        let Some(element) = document.element(node) else { continue };
        count += 1;
        assert!(ELEMENTS.contains(&&*element.name.local_name), "{:?}", element.name);
        for uppsala::Attribute { name, value } in &element.attributes {
            let name = &*name.local_name;
            assert!(!name.starts_with("on") && !["src", "style", "srcdoc"].contains(&name), "{name}={value}");
            assert!(!["href", "action", "data-events"].contains(&name) || is_address(value), "{name}={value}");
        }
    }
    count
}

/// The browser that opens pages, if there is one.
pub(crate) fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("WINDLASS_CHROMIUM") {
        return Some(PathBuf::from(named));
    }
    let names = ["chromium", "chromium-headless-shell", "chrome-headless-shell", "google-chrome"];
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let found =
        names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()));
    if found.is_none() {
        windlass_testing::lacks("chromium");
    }
    found
}

/// The browser with these arguments, and a profile in a folder.
pub(crate) fn headless(chromium: &Path, profile: &Path, words: &[&str]) -> String {
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(words)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}
