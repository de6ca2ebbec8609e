//! TLS between the pods of a run: each side proves that it has a key that the client made for it.
//!
//! Raw public keys (RFC 7250) need no certificates. The lead knows the key of every worker, and so which worker it
//! speaks to; a worker knows the lead's. Nobody else gets beyond the handshake, whose messages rustls bounds.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use tokio::net::TcpStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use tokio_rustls::rustls::sign::{CertifiedKey, SigningKey};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error as TlsError, PeerIncompatible, ServerConfig,
    SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Names of the files of a process: its own key as PKCS #8, and the public keys of the others, one after the other.
pub(crate) const OWN_KEY: &str = "shard-key";
pub(crate) const OTHER_KEYS: &str = "shard-peers";

/// Size of a public key in bytes: an Ed25519 key as SubjectPublicKeyInfo.
const PUBLIC: usize = 44;
/// Maximum size of a file of keys, in bytes.
const LARGEST: u64 = 64 << 10;

/// A key pair of a process.
pub(crate) struct KeyPair {
    /// As PKCS #8.
    pub(crate) private: Zeroizing<Vec<u8>>,
    /// As SubjectPublicKeyInfo.
    pub(crate) public: Vec<u8>,
}

impl KeyPair {
    /// Makes a key pair.
    pub(crate) fn new() -> Result<KeyPair> {
        let unusable = || Error::new("no key can be made for the run");
        let private = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| unusable())?;
        let private = Zeroizing::new(private.as_ref().to_vec());
        let public = public_key(&*signing_key(&private)?)?;
        Ok(KeyPair { private, public })
    }
}

fn signing_key(private: &[u8]) -> Result<Arc<dyn SigningKey>> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(private));
    provider::sign::any_supported_type(&key).map_err(|_| Error::new("the key of the run's process is damaged"))
}

fn public_key(key: &dyn SigningKey) -> Result<Vec<u8>> {
    let public = key.public_key().map(|public| public.as_ref().to_vec()).filter(|public| public.len() == PUBLIC);
    public.ok_or_else(|| Error::new("the key of the run's process is of another kind"))
}

/// Keys of a process, read from its folder.
struct Files {
    own: Arc<CertifiedKey>,
    others: Arc<Others>,
}

impl Files {
    fn read(folder: &Path) -> Result<Files> {
        let read = |name: &str| {
            let path = folder.join(name);
            windlass_bounds::read_up_to(&path, LARGEST)
                .map_err(|error| Error::new(format!("{} cannot be read: {error}", path.display())))
        };
        let own = signing_key(&Zeroizing::new(read(OWN_KEY)?))?;
        let public = CertificateDer::from(public_key(&*own)?);
        let others = read(OTHER_KEYS)?;
        if others.is_empty() || others.len() % PUBLIC != 0 {
            return Err(Error::new("the keys of the run's other processes are damaged"));
        }
        let keys = others.chunks_exact(PUBLIC).map(<[u8]>::to_vec).collect();
        Ok(Files {
            own: Arc::new(CertifiedKey::new(vec![public], own)),
            others: Arc::new(Others { keys, provider: provider::default_provider() }),
        })
    }

    fn provider(&self) -> Arc<CryptoProvider> {
        Arc::new(self.others.provider.clone())
    }
}

/// The processes that this one speaks to.
#[derive(Debug)]
struct Others {
    keys: Vec<Vec<u8>>,
    provider: CryptoProvider,
}

impl Others {
    /// Number of the process with this key.
    fn index_of(&self, key: &[u8]) -> Option<usize> {
        self.keys.iter().position(|known| known == key)
    }

    fn check(&self, key: &CertificateDer<'_>) -> std::result::Result<(), TlsError> {
        self.index_of(key).map(drop).ok_or_else(|| TlsError::General("the other side is not of this run".to_owned()))
    }

    fn signed(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.provider.signature_verification_algorithms)
    }
}

impl ServerCertVerifier for Others {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _more: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, TlsError> {
        self.check(key).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        self.signed(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Others {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _more: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, TlsError> {
        self.check(key).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        self.signed(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// The lead's side.
#[derive(Clone)]
pub(super) struct OfLead {
    acceptor: TlsAcceptor,
    workers: Arc<Others>,
}

impl std::fmt::Debug for OfLead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OfLead").finish_non_exhaustive()
    }
}

impl OfLead {
    /// Reads the keys in a folder.
    pub(super) fn read(folder: &Path) -> Result<OfLead> {
        let files = Files::read(folder)?;
        let workers = Arc::clone(&files.others);
        let mut config = ServerConfig::builder_with_provider(files.provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| Error::new(format!("TLS is unusable: {error}")))?
            .with_client_cert_verifier(files.others)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(files.own)));
        // A resumed session would prove no key.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(OfLead { acceptor: TlsAcceptor::from(Arc::new(config)), workers })
    }

    /// Makes the handshake. Returns the number of the worker, from 0.
    pub(super) async fn accept(self, stream: TcpStream) -> io::Result<(usize, server::TlsStream<TcpStream>)> {
        let stream = self.acceptor.accept(stream).await?;
        let key = stream.get_ref().1.peer_certificates().and_then(|keys| keys.first());
        let index = key.and_then(|key| self.workers.index_of(key)).ok_or_else(|| io::Error::other("no key"))?;
        Ok((index, stream))
    }
}

/// A worker's side.
pub(super) struct OfWorker(TlsConnector);

impl OfWorker {
    /// Reads the keys in a folder.
    pub(super) fn read(folder: &Path) -> Result<OfWorker> {
        let files = Files::read(folder)?;
        let mut config = ClientConfig::builder_with_provider(files.provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| Error::new(format!("TLS is unusable: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(files.others)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(files.own)));
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(OfWorker(TlsConnector::from(Arc::new(config))))
    }

    /// Makes the handshake.
    pub(super) async fn connect(&self, stream: TcpStream) -> io::Result<client::TlsStream<TcpStream>> {
        // The key alone shows who answers.
        let name = ServerName::try_from("windlass").map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Writes the keys of a process to a folder of its own.
    fn folder(own: &KeyPair, others: &[&KeyPair]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(OWN_KEY), &*own.private).unwrap();
        let others: Vec<u8> = others.iter().flat_map(|other| other.public.clone()).collect();
        std::fs::write(folder.path().join(OTHER_KEYS), others).unwrap();
        folder
    }

    /// Number of the worker for the lead, and whether the worker hears the lead.
    async fn meet(lead: &tempfile::TempDir, worker: &tempfile::TempDir) -> (Option<usize>, bool) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (lead, worker) = (OfLead::read(lead.path()).unwrap(), OfWorker::read(worker.path()).unwrap());
        let accepting = async {
            let (index, mut stream) = lead.accept(listener.accept().await.unwrap().0).await.ok()?;
            stream.write_all(b"x").await.ok()?;
            stream.flush().await.ok()?;
            Some(index)
        };
        let connecting = async {
            let mut stream = worker.connect(TcpStream::connect(address).await.unwrap()).await.ok()?;
            stream.read_u8().await.ok()
        };
        let (index, byte) = tokio::join!(accepting, connecting);
        (index, byte.is_some())
    }

    #[tokio::test]
    async fn only_processes_with_known_keys_meet() {
        let [lead, first, second, stranger] = [(); 4].map(|()| KeyPair::new().unwrap());
        let of_lead = folder(&lead, &[&first, &second]);
        assert_eq!(meet(&of_lead, &folder(&second, &[&lead])).await, (Some(1), true));
        // A stranger who knows the lead's public key, and a man in the middle.
        assert_eq!(meet(&of_lead, &folder(&stranger, &[&lead])).await, (None, false));
        assert!(!meet(&folder(&stranger, &[&first]), &folder(&first, &[&lead])).await.1);
        // Other workers do not accept a worker as the lead.
        assert!(!meet(&folder(&second, &[&first]), &folder(&first, &[&lead])).await.1);
    }

    #[test]
    fn damaged_keys_refused() {
        let key = KeyPair::new().unwrap();
        let folder = folder(&key, &[]);
        assert!(OfLead::read(folder.path()).unwrap_err().message().contains("damaged"));
        std::fs::write(folder.path().join(OWN_KEY), "x").unwrap();
        assert!(OfWorker::read(folder.path()).is_err_and(|error| error.message().contains("damaged")));
    }
}
