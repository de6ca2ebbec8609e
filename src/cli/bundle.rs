//! `windlass bundle`: creates, checks and unpacks bundles for sites without a network.

mod create;
mod show;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ssh_key::PrivateKey;
use tokio_rustls::TlsAcceptor;

use super::{secrets, session};
use crate::bundle::{self, Bundle, Digest, Signature, Trust};
use crate::error::{Error, Result};
use crate::http::server;
use crate::output::Printer;
use crate::settings::{Color, Config, Settings};

/// Create, verify and unpack bundles of everything that a cluster needs.
///
/// A bundle is one signed file with the programs, images and manifests that an inventory's playbooks fetch.
/// `windlass playbook -e bundle=FILE` takes them from it, so hosts need no network.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass bundle create -i inventory/prod --sign ~/.ssh/id_ed25519 prod.bundle
  windlass bundle create -i inventory/prod --since prod.bundle --sign ~/.ssh/id_ed25519 next.bundle
  windlass bundle verify --allowed-signers signers prod.bundle
  windlass bundle list prod.bundle
  windlass bundle diff prod.bundle next.bundle
  windlass bundle sign --key ~/.ssh/id_ed25519 prod.bundle
  windlass bundle unpack --allowed-signers signers prod.bundle mirror
  windlass bundle serve --allowed-signers signers --listen 192.0.2.1:8080 prod.bundle mirror
  windlass playbook -i inventory/prod playbooks/cluster.yml -e bundle=prod.bundle \\
    -e bundle_allowed_signers=signers")]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a bundle for an inventory
    Create(create::Arguments),
    /// Check the signature and every hash of a bundle
    Verify {
        /// The bundle
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Bundle with the contents that this difference bundle leaves out; repeatable
        #[arg(long, value_name = "FILE")]
        base: Vec<PathBuf>,
        #[command(flatten)]
        trust: TrustOptions,
    },
    /// List the files of a bundle, without checking its signature
    List {
        /// The bundle
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print the manifest as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the files that differ between two bundles, without checking their signatures
    Diff {
        /// The older bundle
        #[arg(value_name = "OLD")]
        old: PathBuf,
        /// The newer bundle
        #[arg(value_name = "NEW")]
        new: PathBuf,
        /// Print the differences as JSON
        #[arg(long)]
        json: bool,
    },
    /// Sign a bundle, or add a signature made by `ssh-keygen -Y sign -n windlass-bundle` of its bundle.json
    Sign {
        /// The bundle
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Private key in OpenSSH's format
        #[arg(long, value_name = "FILE", required_unless_present = "signature")]
        key: Option<PathBuf>,
        /// Signature to add
        #[arg(long, value_name = "FILE", conflicts_with = "key")]
        signature: Option<PathBuf>,
    },
    /// Check and unpack a bundle, and serve its files and images by HTTP or HTTPS, read only
    Serve {
        /// The bundle
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Directory to unpack it into
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Address and port; clients need no login, so use a trusted network for any other than loopback
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// Server certificate in PEM format, followed by its intermediate certificates
        #[arg(long, value_name = "FILE", requires = "tls_key")]
        tls_cert: Option<PathBuf>,
        /// Private key of the certificate in PEM format; `-` reads it from the standard input
        #[arg(long, value_name = "FILE", requires = "tls_cert")]
        tls_key: Option<PathBuf>,
        /// Bundle with the contents that this difference bundle leaves out; repeatable
        #[arg(long, value_name = "FILE")]
        base: Vec<PathBuf>,
        #[command(flatten)]
        trust: TrustOptions,
    },
    /// Check a bundle, and unpack it into a directory
    Unpack {
        /// The bundle
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Directory for `files`, `images` and `windlass`; complete files in it are kept
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Bundle with the contents that this difference bundle leaves out; repeatable
        #[arg(long, value_name = "FILE")]
        base: Vec<PathBuf>,
        /// Print the variables for the roles as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        trust: TrustOptions,
    },
}

/// Keys that may sign a bundle.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Signature")]
struct TrustOptions {
    /// File of trusted keys, as for `ssh-keygen -Y verify -f`
    #[arg(long, value_name = "FILE")]
    allowed_signers: Option<PathBuf>,
    /// Identity in that file that must have signed [default: any]
    #[arg(long, value_name = "NAME", requires = "allowed_signers")]
    identity: Option<String>,
    /// Public key that must have signed
    #[arg(long, value_name = "FILE", conflicts_with = "allowed_signers")]
    public_key: Option<PathBuf>,
    /// Signature of bundle.json to check instead of the bundle's own
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
    /// Accept a bundle without a signature, or with one that no given key can check
    #[arg(long)]
    allow_unsigned: bool,
}

/// Runs the verb.
pub(super) fn run(arguments: Arguments) -> Result<u8> {
    let settings = Settings::from_config(&Config::find()?)?;
    let printer = session::printer(&settings);
    match arguments.verb {
        Verb::Create(arguments) => create::run(&arguments, &printer)?,
        Verb::Verify { file, base, trust } => verify(&file, &base, &trust.trust(), &printer)?,
        Verb::List { file, json } => show::list(&Bundle::open(&file)?, json, &printer)?,
        Verb::Diff { old, new, json } => show::diff(&Bundle::open(&old)?, &Bundle::open(&new)?, json, &printer)?,
        Verb::Sign { file, key, signature } => sign(&file, key.as_deref(), signature, &printer)?,
        Verb::Serve { file, directory, listen, tls_cert, tls_key, base, trust } => {
            let trust = trust.trust();
            let tls = tls_cert.zip(tls_key).map(|(certificate, key)| server::acceptor(&certificate, &key));
            let tls = tls.transpose()?;
            let (bundle, signature) = open(&file, &trust)?;
            let folder = crate::paths::absolute(&directory);
            bundle::unpack(&bundle, &bases(&bundle, &base, &trust)?, &folder)?;
            line(&printer, &described(&signature));
            serve(&bundle, &folder, listen, tls, &printer)?;
        }
        Verb::Unpack { file, directory, base, json, trust } => {
            let trust = trust.trust();
            let (bundle, signature) = open(&file, &trust)?;
            let bases = bases(&bundle, &base, &trust)?;
            let unpacked = bundle::unpack(&bundle, &bases, &crate::paths::absolute(&directory))?;
            if json {
                let answer = serde_json::json!({"changed": unpacked.changed, "variables": unpacked.variables});
                super::stdout::print(&format!("{answer}\n"))?;
            } else {
                line(&printer, &described(&signature));
                let what = if unpacked.changed { "unpacked into" } else { "is complete in" };
                line(&printer, &format!("{} {what} {}", file.display(), directory.display()));
            }
        }
    }
    Ok(0)
}

impl TrustOptions {
    fn trust(self) -> Trust {
        let TrustOptions { allowed_signers, identity, public_key, signature, allow_unsigned } = self;
        Trust { allowed_signers, identity, public_key, signature, allow_unsigned }
    }
}

/// Opens a bundle and checks its signature.
fn open(file: &Path, trust: &Trust) -> Result<(Bundle, Signature)> {
    let bundle = Bundle::open(file)?;
    let signature = bundle::check(&bundle, trust)?;
    Ok((bundle, signature))
}

/// Opens the bases, which must include the one that a difference bundle names.
fn bases(bundle: &Bundle, files: &[PathBuf], trust: &Trust) -> Result<Vec<Bundle>> {
    // A signature beside the bundle is not that of its base.
    let trust = Trust { signature: None, ..trust.clone() };
    let bases: Vec<Bundle> = files.iter().map(|file| Ok(open(file, &trust)?.0)).collect::<Result<_>>()?;
    let Some(wanted) = &bundle.manifest().base else { return Ok(bases) };
    match bases.is_empty() || bases.iter().any(|base| base.digest() == wanted.manifest) {
        true => Ok(bases),
        false => {
            let message = format!(
                "none of the bases is `{}` with the manifest {}, on which `{}` builds",
                wanted.name,
                wanted.manifest,
                bundle.path().display()
            );
            Err(Error::new(message).hint("name the bundle that --since had"))
        }
    }
}

fn verify(file: &Path, files: &[PathBuf], trust: &Trust, printer: &Printer) -> Result<()> {
    let (bundle, signature) = open(file, trust)?;
    bundle.visit(&mut ())?;
    let bases = bases(&bundle, files, trust)?;
    bases.iter().try_for_each(|base| base.visit(&mut ()))?;
    let absent: Vec<&str> = bundle
        .manifest()
        .from_base()
        .filter(|file| !bases.iter().any(|base| base.manifest().blobs().contains_key(&file.sha256)))
        .map(|file| file.path.as_str())
        .collect();
    if let (Some(first), false) = (absent.first(), bases.is_empty()) {
        return Err(Error::new(format!("no base has `{first}`, nor {} more files", absent.len() - 1))
            .hint("name all bundles that it builds on with --base"));
    }
    line(printer, &described(&signature));
    let manifest = bundle.manifest();
    let own = manifest.blobs().len();
    line(printer, &format!("contents: sizes and hashes match ({own} of {own})"));
    if let Some(base) = &manifest.base {
        let state = if bases.is_empty() { "not checked; name it with --base" } else { "checked" };
        let left = manifest.from_base().count();
        line(printer, &format!("base: {left} files are in `{}`, manifest {} ({state})", base.name, base.manifest));
    }
    line(printer, &format!("manifest: {}", bundle.digest()));
    Ok(())
}

/// Serves an unpacked bundle until the program is ended.
fn serve(
    bundle: &Bundle,
    folder: &Path,
    listen: SocketAddr,
    tls: Option<TlsAcceptor>,
    printer: &Printer,
) -> Result<()> {
    let mirror = bundle::Mirror::of(bundle.manifest(), folder)?;
    let bound = TcpListener::bind(listen).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) =
        bound.map_err(|error| Error::new(format!("`{listen}` cannot be listened on: {error}")))?;
    let files = bundle.manifest().files.len();
    let scheme = if tls.is_some() { "https" } else { "http" };
    line(printer, &format!("serving {files} files and {} images at {scheme}://{address}/", mirror.images()));
    mirror.serve(listener, tls)
}

fn described(signature: &Signature) -> String {
    match signature {
        Signature::Valid { fingerprint, identity: Some(identity) } => {
            format!("signature: valid, by `{identity}`, {fingerprint}")
        }
        Signature::Valid { fingerprint, identity: None } => format!("signature: valid, by {fingerprint}"),
        Signature::Unchecked => "signature: not checked, because no key is trusted".to_owned(),
        Signature::Missing => "signature: missing".to_owned(),
    }
}

fn sign(file: &Path, key: Option<&Path>, signature: Option<PathBuf>, printer: &Printer) -> Result<()> {
    let bundle = Bundle::open(file)?;
    let made = match (key, &signature) {
        (Some(key), _) => bundle::sign(&private_key(key)?, bundle.manifest_bytes())?,
        (None, Some(path)) => windlass_bounds::read_text(path)
            .map_err(|error| Error::new(format!("`{}` cannot be read: {error}", path.display())))?,
        (None, None) => return Err(Error::usage("--key or --signature is missing")),
    };
    // Only the form is checked here: whoever verifies the bundle decides which keys to trust.
    if made.parse::<ssh_key::SshSig>().is_err() {
        return Err(Error::new("the signature is not one of ssh-keygen")
            .hint("make it with `ssh-keygen -Y sign -n windlass-bundle -f KEY bundle.json`"));
    }
    bundle.visit(&mut ())?;
    bundle::rewrite(&bundle, file, &made)?;
    line(printer, &format!("signed {}", file.display()));
    Ok(())
}

/// Reads a private key, and asks for its passphrase.
fn private_key(path: &Path) -> Result<PrivateKey> {
    let shown = path.display();
    let read = windlass_bounds::read_up_to(path, 1 << 20);
    let text = zeroize::Zeroizing::new(read.map_err(|error| Error::new(format!("`{shown}` cannot be read: {error}")))?);
    let key = PrivateKey::from_openssh(text.as_slice()).map_err(|error| {
        Error::new(format!("`{shown}` is not a private key of OpenSSH: {error}"))
            .hint("for a key in an agent, use `ssh-keygen -Y sign` and `windlass bundle sign --signature`")
    })?;
    if !key.is_encrypted() {
        return Ok(key);
    }
    let asked = secrets::ask(&format!("Passphrase of {shown}: "), None);
    let passphrase = zeroize::Zeroizing::new(asked.map_err(|error| {
        error.hint("add it to an agent, and use `ssh-keygen -Y sign` and `windlass bundle sign --signature`")
    })?);
    key.decrypt(passphrase.as_bytes()).map_err(|_| Error::new(format!("the passphrase of `{shown}` is wrong")))
}

fn line(printer: &Printer, text: &str) {
    printer.line(text, Color::Plain);
}

/// The first digits of a hash, for tables.
fn short(digest: &Digest) -> String {
    digest.to_string().chars().take(12).collect()
}
