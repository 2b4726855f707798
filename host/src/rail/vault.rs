//! Secrets and keys of one rail. They are written into the rail's form, and nowhere else.

use std::collections::BTreeMap;

use aws_lc_rs::cipher::{AES_256, EncryptionContext, PaddedBlockEncryptingKey, UnboundCipherKey};
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepAlgorithm, OaepPublicEncryptingKey,
    Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use aws_lc_rs::signature::{Ed25519KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use form::Secrets;
use form::file::Computed;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use secrecy::{ExposeSecret, SecretString};
use uuid::Uuid;

use super::definition::{Algorithm, Definition};
use super::egress::veil::Veil;
use super::error::LoadError;

#[derive(Debug)]
pub(super) struct Vault {
    secrets: BTreeMap<String, SecretString>,
    keys: BTreeMap<String, Key>,
    veil: Veil,
}

enum Key {
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
    Ed25519(Ed25519KeyPair),
    Hmac(Box<hmac::Key>),
    EncryptPkcs1(Pkcs1PublicEncryptingKey),
    EncryptOaep(OaepPublicEncryptingKey, &'static OaepAlgorithm),
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("there is no key {0}")]
    Unknown(String),
    #[error("{0}")]
    Unfit(String),
}

/// What is written into one request: the rail's secrets, and its tokens of this moment.
pub(super) struct Written<'w> {
    pub vault: &'w Vault,
    pub tokens: &'w BTreeMap<String, SecretString>,
    /// Where the rail may send news to.
    pub callback_url: Option<&'w str>,
}

/// The name of the key that makes callback addresses.
const CALLBACK_KEY: &str = "callback";

impl Secrets for Written<'_> {
    fn secret(&self, name: &str) -> Option<&str> {
        self.vault.secrets.get(name).map(|secret| secret.expose_secret())
    }

    fn token(&self, name: &str) -> Option<&str> {
        self.tokens.get(name).map(|token| token.expose_secret())
    }

    fn encrypt(&self, key: &str, text: &[u8]) -> Result<Vec<u8>, String> {
        self.vault.encrypt(key, text).map_err(|problem| problem.to_string())
    }

    fn hmac(&self, key: &str, message: &[u8]) -> Result<Vec<u8>, String> {
        self.vault.hmac(key, message).map_err(|problem| problem.to_string())
    }

    fn sign(&self, key: &str, message: &[u8]) -> Result<Vec<u8>, String> {
        self.vault.sign(key, message).map_err(|problem| problem.to_string())
    }

    fn envelope(&self, key: &str, body: &[u8]) -> Result<(String, String), String> {
        self.vault.envelope(key, body).map_err(|problem| problem.to_string())
    }

    /// Rails that sign nothing get an address that only they and we know; what arrives there is a hint to ask.
    fn callback(&self, outbox_id: Uuid) -> Option<String> {
        let proof = self.vault.callback_proof(outbox_id)?;
        Some(format!("{}/{outbox_id}/{}", self.callback_url?, hex::encode(proof)))
    }
}

impl Vault {
    pub(super) fn open(definition: &Definition) -> Result<Self, LoadError> {
        let (mut secrets, mut keys, mut private) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (name, source) in &definition.file.secrets {
            secrets.insert(name.clone(), definition.read(&format!("secrets.{name}"), source)?);
        }
        for (name, file) in &definition.file.keys {
            let value = definition.read(&format!("keys.{name}.key"), &file.key)?;
            let key = Key::read(file.algorithm, &value).map_err(|problem| LoadError::Definition {
                path: definition.own_path(),
                problem: format!("keys.{name}.key: {problem}"),
            })?;
            keys.insert(name.clone(), key);
            if !file.algorithm.is_public() {
                private.push(value);
            }
        }
        Ok(Self::of(secrets, keys, private, &definition.file.computed))
    }

    /// For conformance tests: every secret and key that the rail's file names, with values that exist nowhere else.
    pub(super) fn made_up(definition: &Definition) -> Result<Self, LoadError> {
        let canary = |name: &String| SecretString::from(format!("canary-{name}-{}", Uuid::new_v4().simple()));
        let secrets = definition.file.secrets.keys().map(|name| (name.clone(), canary(name))).collect();
        let mut keys = BTreeMap::new();
        for (name, file) in &definition.file.keys {
            let key = Key::made_up(file.algorithm)
                .map_err(|_| LoadError::Network(format!("no key could be made for {name}")))?;
            keys.insert(name.clone(), key);
        }
        Ok(Self::of(secrets, keys, Vec::new(), &definition.file.computed))
    }

    /// What an address for news of a payment ends with.
    pub(super) fn callback_proof(&self, outbox_id: Uuid) -> Option<Vec<u8>> {
        self.hmac(CALLBACK_KEY, outbox_id.to_string().as_bytes()).ok()
    }

    /// What is made of two secrets must not show either.
    fn of(
        secrets: BTreeMap<String, SecretString>,
        keys: BTreeMap<String, Key>,
        private: Vec<SecretString>,
        computed: &BTreeMap<String, Computed>,
    ) -> Self {
        let mut hidden: Vec<SecretString> = secrets.values().cloned().chain(private).collect();
        for computed in computed.values() {
            if let Computed::Basic { user, password } = computed
                && let (Some(user), Some(password)) = (secrets.get(user), secrets.get(password))
            {
                hidden.push(format!("{}:{}", user.expose_secret(), password.expose_secret()).into());
            }
        }
        Self { veil: Veil::over(&hidden), secrets, keys }
    }

    pub(super) fn veil(&self) -> &Veil {
        &self.veil
    }

    fn sign(&self, name: &str, message: &[u8]) -> Result<Vec<u8>, Problem> {
        match self.key(name)? {
            Key::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &SystemRandom::new(), message, &mut signature)
                    .map_err(|_| Problem::Unfit(format!("{name} could not sign")))?;
                Ok(signature)
            }
            Key::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            _ => Err(Problem::Unfit(format!("{name} is no key for signatures"))),
        }
    }

    fn hmac(&self, name: &str, message: &[u8]) -> Result<Vec<u8>, Problem> {
        match self.key(name)? {
            Key::Hmac(key) => Ok(hmac::sign(key, message).as_ref().to_vec()),
            _ => Err(Problem::Unfit(format!("{name} is no key for HMAC"))),
        }
    }

    fn encrypt(&self, name: &str, text: &[u8]) -> Result<Vec<u8>, Problem> {
        let too_long = |_| Problem::Unfit(format!("{} bytes are too many for {name}", text.len()));
        match self.key(name)? {
            Key::EncryptPkcs1(key) => {
                let mut out = vec![0; key.ciphertext_size()];
                key.encrypt(text, &mut out).map(|out| out.to_vec()).map_err(too_long)
            }
            Key::EncryptOaep(key, algorithm) => {
                let mut out = vec![0; key.ciphertext_size()];
                key.encrypt(algorithm, text, &mut out, None).map(|out| out.to_vec()).map_err(too_long)
            }
            _ => Err(Problem::Unfit(format!("{name} is no key for encryption"))),
        }
    }

    /// A message under a fresh AES key, and that key with its vector under a public one, both in base64.
    fn envelope(&self, name: &str, message: &[u8]) -> Result<(String, String), Problem> {
        let unfit = |_| Problem::Unfit("the message could not be sealed".to_owned());
        let (mut key, mut vector) = ([0; 32], [0; 16]);
        let random = SystemRandom::new();
        random.fill(&mut key).map_err(unfit)?;
        random.fill(&mut vector).map_err(unfit)?;
        let cipher = UnboundCipherKey::new(&AES_256, &key).and_then(PaddedBlockEncryptingKey::cbc_pkcs7);
        let mut sealed = message.to_vec();
        cipher
            .and_then(|cipher| {
                cipher.less_safe_encrypt(&mut sealed, EncryptionContext::Iv128(FixedLength::from(vector)))
            })
            .map_err(unfit)?;
        let opener = format!("{}:{}", STANDARD.encode(key), STANDARD.encode(vector));
        let opener = self.encrypt(name, opener.as_bytes())?;
        Ok((STANDARD.encode(sealed), STANDARD.encode(opener)))
    }

    fn key(&self, name: &str) -> Result<&Key, Problem> {
        self.keys.get(name).ok_or_else(|| Problem::Unknown(name.to_owned()))
    }
}

impl Key {
    fn made_up(algorithm: Algorithm) -> Result<Self, aws_lc_rs::error::Unspecified> {
        let rsa_pair = || RsaKeyPair::generate(KeySize::Rsa2048);
        let public = || PrivateDecryptingKey::generate(KeySize::Rsa2048).map(|private| private.public_key());
        let oaep = |algorithm| Ok(Self::EncryptOaep(OaepPublicEncryptingKey::new(public()?)?, algorithm));
        match algorithm {
            Algorithm::SignRsaPkcs1Sha256 => Ok(Self::Rsa(rsa_pair()?, &RSA_PKCS1_SHA256)),
            Algorithm::SignRsaPssSha256 => Ok(Self::Rsa(rsa_pair()?, &RSA_PSS_SHA256)),
            Algorithm::SignEd25519 => Ok(Self::Ed25519(Ed25519KeyPair::generate()?)),
            Algorithm::HmacSha256 => {
                Ok(Self::Hmac(Box::new(hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?)))
            }
            Algorithm::HmacSha512 => {
                Ok(Self::Hmac(Box::new(hmac::Key::generate(hmac::HMAC_SHA512, &SystemRandom::new())?)))
            }
            Algorithm::EncryptRsaPkcs1 => Ok(Self::EncryptPkcs1(Pkcs1PublicEncryptingKey::new(public()?)?)),
            Algorithm::EncryptRsaOaepSha1 => oaep(&OAEP_SHA1_MGF1SHA1),
            Algorithm::EncryptRsaOaepSha256 => oaep(&OAEP_SHA256_MGF1SHA256),
        }
    }

    fn read(algorithm: Algorithm, value: &SecretString) -> Result<Self, String> {
        let pem = value.expose_secret().as_bytes();
        let private = || {
            PrivatePkcs8KeyDer::from_pem_slice(pem)
                .map_err(|_| "expected a private key in PEM (PKCS#8)".to_owned())
        };
        let public = || -> Result<PublicEncryptingKey, String> {
            let der = SubjectPublicKeyInfoDer::from_pem_slice(pem)
                .map_err(|_| "expected a public key in PEM".to_owned())?;
            PublicEncryptingKey::from_der(der.as_ref())
                .map_err(|_| "expected an RSA key of 2048 bits or more".to_owned())
        };
        let rsa_pair = || {
            RsaKeyPair::from_pkcs8(private()?.secret_pkcs8_der())
                .map_err(|error| format!("expected an RSA key: {error}"))
        };
        let unfit = |_| "the key cannot be used for this".to_owned();
        Ok(match algorithm {
            Algorithm::SignRsaPkcs1Sha256 => Self::Rsa(rsa_pair()?, &RSA_PKCS1_SHA256),
            Algorithm::SignRsaPssSha256 => Self::Rsa(rsa_pair()?, &RSA_PSS_SHA256),
            Algorithm::SignEd25519 => Self::Ed25519(
                Ed25519KeyPair::from_pkcs8(private()?.secret_pkcs8_der())
                    .map_err(|error| format!("expected an Ed25519 key: {error}"))?,
            ),
            Algorithm::HmacSha256 => Self::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA256, pem))),
            Algorithm::HmacSha512 => Self::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA512, pem))),
            Algorithm::EncryptRsaPkcs1 => {
                Self::EncryptPkcs1(Pkcs1PublicEncryptingKey::new(public()?).map_err(unfit)?)
            }
            Algorithm::EncryptRsaOaepSha1 => Self::EncryptOaep(
                OaepPublicEncryptingKey::new(public()?).map_err(unfit)?,
                &OAEP_SHA1_MGF1SHA1,
            ),
            Algorithm::EncryptRsaOaepSha256 => Self::EncryptOaep(
                OaepPublicEncryptingKey::new(public()?).map_err(unfit)?,
                &OAEP_SHA256_MGF1SHA256,
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
    use aws_lc_rs::rsa::{OaepPrivateDecryptingKey, Pkcs1PrivateDecryptingKey};
    use aws_lc_rs::signature::{ED25519, KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    use super::*;

    fn pem(kind: &str, der: &[u8]) -> SecretString {
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der)).into()
    }

    fn vault(algorithm: Algorithm, value: SecretString) -> Vault {
        let key = Key::read(algorithm, &value).expect("a good key");
        Vault::of(BTreeMap::new(), BTreeMap::from([("k".to_owned(), key)]), Vec::new(), &BTreeMap::new())
    }

    #[test]
    fn signatures_are_the_keys_own() {
        let pair = Ed25519KeyPair::generate().expect("a key");
        let der = pair.to_pkcs8().expect("a document");
        let signature = vault(Algorithm::SignEd25519, pem("PRIVATE KEY", der.as_ref()))
            .sign("k", b"hello")
            .expect("signed");
        UnparsedPublicKey::new(&ED25519, pair.public_key().as_ref())
            .verify(b"hello", &signature)
            .expect("verified");

        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).expect("a document");
        let vault = vault(Algorithm::SignRsaPkcs1Sha256, pem("PRIVATE KEY", der.as_ref()));
        let signature = vault.sign("k", b"hello").expect("signed");
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
        public.verify(b"hello", &signature).expect("verified");
        assert_eq!(vault.hmac("k", b"x"), Err(Problem::Unfit("k is no key for HMAC".into())));
        assert_eq!(vault.sign("other", b"x"), Err(Problem::Unknown("other".into())));
    }

    #[test]
    fn hmac_is_the_published_one() {
        let vault = vault(Algorithm::HmacSha256, "Jefe".to_owned().into());
        let mac = vault.hmac("k", b"what do ya want for nothing?").expect("a code");
        assert_eq!(hex::encode(mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn what_was_encrypted_only_the_private_key_reads() {
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).expect("a key");
        let der = AsDer::<PublicKeyX509Der<'_>>::as_der(&private.public_key()).expect("a document");
        let value = pem("PUBLIC KEY", der.as_ref());

        let sealed =
            vault(Algorithm::EncryptRsaPkcs1, value.clone()).encrypt("k", b"1234").expect("encrypted");
        let mut out = vec![0; 256];
        let opener = Pkcs1PrivateDecryptingKey::new(private.clone()).expect("a key");
        assert_eq!(opener.decrypt(&sealed, &mut out).expect("opened"), b"1234");

        let vault = vault(Algorithm::EncryptRsaOaepSha256, value);
        let sealed = vault.encrypt("k", b"1234").expect("encrypted");
        let opener = OaepPrivateDecryptingKey::new(private).expect("a key");
        assert_eq!(
            opener.decrypt(&OAEP_SHA256_MGF1SHA256, &sealed, &mut out, None).expect("opened"),
            b"1234"
        );
        assert!(matches!(vault.encrypt("k", &[0; 300]), Err(Problem::Unfit(_))));
    }
}
