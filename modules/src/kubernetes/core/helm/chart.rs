//! The chart of a release. Helm gets addresses with passwords in private files, because every user of the host can read
//! its command line.

use std::{path::Path, time::Duration};

use serde_json::json;

use super::{Helm, deploy::Line, failed};
use crate::{
    Args, Failure, Host,
    files::scratch::{Scratch, spool},
    http::{
        client::{Client, Service},
        exchange::Request,
    },
    net::address::Address,
    process::reason,
    secrets::without_passwords,
};

/// Time that the server of a chart may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// The chart of a task.
pub(super) struct Chart {
    /// Name, path or URL for helm.
    pub(super) reference: String,
    /// `chart_ref` for results.
    pub(super) shown: String,
    /// Whether a private configuration file names the repository, so that `--repo` is not on the command line.
    configured: bool,
}

impl Chart {
    /// Downloads the chart if its address has a password. Writes a repository to a private configuration file if its
    /// address has one. The files last as long as `helm`.
    pub(super) fn of(helm: &mut Helm, args: &Args, host: &Host) -> Result<Chart, Failure> {
        let given = args.str("chart_ref").unwrap_or_default();
        let has_password = |url: &str| without_passwords(url) != url;
        let mut chart = Chart { reference: given.to_owned(), shown: without_passwords(given), configured: false };
        if has_password(given) {
            let scratch = Scratch::new()?;
            chart.reference = download(given, &scratch, args, host)?;
            helm.files = Some(scratch);
        } else if let Some(url) = args.str("chart_repo_url").filter(|url| has_password(url)) {
            chart.configured = true;
            // Helm prefers a path to a repository.
            if !Path::new(given).exists() {
                let scratch = Scratch::new()?;
                let name = configure(helm, url, &scratch, args, host)?;
                chart.reference = format!("{name}/{given}");
                helm.files = Some(scratch);
            }
        }
        Ok(chart)
    }

    /// Adds `--repo` to a command. If a configuration file names the repository, only the command in the result has it.
    pub(super) fn add_repository(&self, line: &mut Line, args: &Args) {
        let Some(url) = args.str("chart_repo_url") else { return };
        let word = format!("--repo={url}");
        line.add_as((!self.configured).then_some(word.as_str()), &without_passwords(&word));
    }
}

/// Downloads a chart with the user and password of its address.
fn download(url: &str, scratch: &Scratch, args: &Args, host: &Host) -> Result<String, Failure> {
    let shown = without_passwords(url);
    let unusable = |reason: &str| Failure::new(format!("The chart {shown} could not be downloaded: {reason}."));
    let address = Address::parse(url).ok_or_else(|| unusable("this is not a URL"))?;
    let service = Service {
        agent_name: "windlass".into(),
        timeout: SILENCE,
        credentials: address.credentials.clone(),
        verify: !args.bool("insecure_skip_tls_verify"),
        ..Service::default()
    };
    let request = Request { method: "GET".into(), url: address.url(), ..Request::default() };
    // A chart is a compressed archive, which some servers declare as compressed content.
    let client = Client::of_service(service, host)?.without_decompression();
    let mut response = client.send(&request, host).map_err(|error| unusable(&error))?;
    if response.status != 200 {
        return Err(unusable(&response.message));
    }
    let path = scratch.path().join("chart.tgz");
    spool(&mut *response.body, &path, &shown, host)?;
    Ok(path.display().to_string())
}

/// Configures a repository for this call of the module only, and returns its name.
fn configure(helm: &mut Helm, url: &str, scratch: &Scratch, args: &Args, host: &Host) -> Result<String, Failure> {
    // A random name, because Helm would prefer a folder of this name in its working directory.
    let name = scratch.path().file_name().unwrap_or_default().to_string_lossy().trim_start_matches('.').to_owned();
    let (user, password) = Address::parse(url).and_then(|address| address.credentials).unwrap_or_default();
    // `helm repo add` would get the user, which may be a token, on its command line.
    let repositories = json!({ "repositories": [{
        "name": name,
        "url": url,
        "username": user,
        "password": password,
        "insecure_skip_tls_verify": args.bool("insecure_skip_tls_verify"),
    }] });
    let [file, cache] = ["repositories.yaml", "cache"].map(|part| scratch.path().join(part));
    // JSON is valid YAML.
    std::fs::write(&file, repositories.to_string())
        .map_err(|error| Failure::new(format!("{} could not be written: {}.", file.display(), reason(&error))))?;
    helm.environment.push(("HELM_REPOSITORY_CONFIG", file.display().to_string()));
    helm.environment.push(("HELM_REPOSITORY_CACHE", cache.display().to_string()));
    let shown = format!("{} repo update", helm.program);
    let output = helm.run(&["repo", "update"].map(str::to_owned), &shown, host)?;
    // Older versions exit with 0 even if the server did not answer, so the index file decides.
    if cache.join(format!("{name}-index.yaml")).exists() { Ok(name) } else { Err(failed(&output, &shown)) }
}
