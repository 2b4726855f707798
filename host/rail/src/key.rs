//! One key of a rail: what it signs, proves, encrypts or verifies.

use aws_lc_rs::cipher::{AES_256, EncryptionContext, PaddedBlockEncryptingKey, UnboundCipherKey};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepAlgorithm, OaepPublicEncryptingKey,
    Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
    UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::key_file::Algorithm;
use super::small_rsa::SmallRsaKey;

pub(super) enum Key {
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Hmac(Box<hmac::Key>),
    EncryptPkcs1(Pkcs1PublicEncryptingKey),
    EncryptOaep(OaepPublicEncryptingKey, &'static OaepAlgorithm),
    /// What the usual library does not do: 1024 bits, or two hashes in one padding.
    EncryptSmall(SmallRsaKey),
    Verify(UnparsedPublicKey<Vec<u8>>),
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Below this a public key is taken only where the rail file says so, and for one thing only.
pub(super) const BITS_MIN: u32 = 2048;
/// The public exponent that every rail uses. Smaller ones give short secrets away.
pub(super) const EXPONENT: u32 = 65_537;

impl Algorithm {
    /// A key that exists nowhere else, as a rail file would refer to it.
    pub fn made_up(self) -> Result<String, String> {
        let failed = |_| "no key could be made".to_owned();
        let ecdsa = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(failed);
        let ed25519 = || Ed25519KeyPair::generate().map_err(failed);
        Ok(match self {
            Self::HmacSha256 | Self::HmacSha512 => uuid::Uuid::new_v4().to_string(),
            Self::SignRsaPkcs1Sha256 | Self::SignRsaPssSha256 | Self::SignRsaPssSha512 => {
                let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
                pem("PRIVATE KEY", AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).map_err(failed)?.as_ref())
            }
            Self::SignEcdsaP256Sha256 => pem("PRIVATE KEY", ecdsa()?.to_pkcs8v1().map_err(failed)?.as_ref()),
            Self::SignEd25519 => pem("PRIVATE KEY", ed25519()?.to_pkcs8().map_err(failed)?.as_ref()),
            Self::VerifyEcdsaP256Sha256 => pem(
                "PUBLIC KEY",
                AsDer::<PublicKeyX509Der<'_>>::as_der(ecdsa()?.public_key()).map_err(failed)?.as_ref(),
            ),
            Self::VerifyEd25519 => pem(
                "PUBLIC KEY",
                AsDer::<PublicKeyX509Der<'_>>::as_der(ed25519()?.public_key()).map_err(failed)?.as_ref(),
            ),
            Self::VerifyRsaPkcs1Sha256
            | Self::EncryptRsaPkcs1
            | Self::EncryptRsaOaepSha1
            | Self::EncryptRsaOaepSha256
            | Self::EncryptRsaOaepSha256Mgf1Sha1 => {
                let public = PrivateDecryptingKey::generate(KeySize::Rsa2048).map_err(failed)?.public_key();
                pem("PUBLIC KEY", AsDer::<PublicKeyX509Der<'_>>::as_der(&public).map_err(failed)?.as_ref())
            }
        })
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
}

/// A public key in PEM, or in base64 alone, as its DER (SubjectPublicKeyInfo).
pub(super) fn public_der(text: &str) -> Option<Vec<u8>> {
    if let Ok(der) = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()) {
        return Some(der.as_ref().to_vec());
    }
    let bare: String = text.split_whitespace().collect();
    STANDARD.decode(bare).ok().filter(|der| !der.is_empty())
}

impl Key {
    /// From a text of the rail file: PEM, or for HMAC the secret itself.
    pub(super) fn read(algorithm: Algorithm, bits: Option<u32>, text: &str) -> Result<Self, String> {
        if algorithm.is_public() {
            let der = public_der(text).ok_or("expected a public key in PEM")?;
            return Self::public(algorithm, bits, &der);
        }
        let private = || {
            PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes())
                .map_err(|_| "expected a private key in PEM (PKCS#8)".to_owned())
        };
        let rsa_pair = || {
            RsaKeyPair::from_pkcs8(private()?.secret_pkcs8_der())
                .map_err(|error| format!("expected an RSA key: {error}"))
        };
        Ok(match algorithm {
            Algorithm::SignRsaPkcs1Sha256 => Self::Rsa(rsa_pair()?, &RSA_PKCS1_SHA256),
            Algorithm::SignRsaPssSha256 => Self::Rsa(rsa_pair()?, &RSA_PSS_SHA256),
            Algorithm::SignRsaPssSha512 => Self::Rsa(rsa_pair()?, &RSA_PSS_SHA512),
            Algorithm::SignEcdsaP256Sha256 => Self::Ecdsa(
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, private()?.secret_pkcs8_der())
                    .map_err(|error| format!("expected a key of P-256: {error}"))?,
            ),
            Algorithm::SignEd25519 => Self::Ed25519(
                Ed25519KeyPair::from_pkcs8(private()?.secret_pkcs8_der())
                    .map_err(|error| format!("expected an Ed25519 key: {error}"))?,
            ),
            Algorithm::HmacSha256 => Self::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()))),
            Algorithm::HmacSha512 => Self::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA512, text.as_bytes()))),
            _ => return Err("expected a public key".to_owned()),
        })
    }

    /// From the DER of a public key. Size and exponent of an RSA key are looked at, whoever gave it.
    pub(super) fn public(algorithm: Algorithm, bits: Option<u32>, der: &[u8]) -> Result<Self, String> {
        let (_, info) =
            SubjectPublicKeyInfo::from_der(der).map_err(|_| "expected a public key".to_owned())?;
        if algorithm.is_rsa() {
            check_rsa(&info, bits)?;
        }
        let raw = info.subject_public_key.data.to_vec();
        let verify = |algorithm: &'static dyn VerificationAlgorithm| {
            Ok(Self::Verify(UnparsedPublicKey::new(algorithm, raw.clone())))
        };
        let unfit = |_| "the key cannot be used for this".to_owned();
        let usual = || PublicEncryptingKey::from_der(der).map_err(|_| "expected an RSA key".to_owned());
        let oaep = |algorithm| {
            Ok(Self::EncryptOaep(OaepPublicEncryptingKey::new(usual()?).map_err(unfit)?, algorithm))
        };
        match algorithm {
            Algorithm::VerifyRsaPkcs1Sha256 => verify(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::VerifyEcdsaP256Sha256 => verify(&ECDSA_P256_SHA256_FIXED),
            Algorithm::VerifyEd25519 => verify(&ED25519),
            Algorithm::EncryptRsaPkcs1 if bits.is_some_and(|bits| bits < BITS_MIN) => {
                SmallRsaKey::pkcs1(der).map(Self::EncryptSmall)
            }
            Algorithm::EncryptRsaPkcs1 => {
                Ok(Self::EncryptPkcs1(Pkcs1PublicEncryptingKey::new(usual()?).map_err(unfit)?))
            }
            Algorithm::EncryptRsaOaepSha1 => oaep(&OAEP_SHA1_MGF1SHA1),
            Algorithm::EncryptRsaOaepSha256 => oaep(&OAEP_SHA256_MGF1SHA256),
            Algorithm::EncryptRsaOaepSha256Mgf1Sha1 => {
                SmallRsaKey::oaep_sha256_mgf1_sha1(der).map(Self::EncryptSmall)
            }
            _ => Err("expected a private key".to_owned()),
        }
    }

    /// One that exists nowhere else, for tests without a rail.
    pub(super) fn made_up(algorithm: Algorithm) -> Result<Self, String> {
        Self::read(algorithm, None, &algorithm.made_up()?)
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let failed = |_| "could not sign".to_owned();
        match self {
            Self::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &SystemRandom::new(), message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            Self::Ecdsa(pair) => {
                Ok(pair.sign(&SystemRandom::new(), message).map_err(failed)?.as_ref().to_vec())
            }
            Self::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            _ => Err("cannot be used for signatures".to_owned()),
        }
    }

    pub(super) fn hmac(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Hmac(key) => Ok(hmac::sign(key, message).as_ref().to_vec()),
            _ => Err("cannot be used for HMAC".to_owned()),
        }
    }

    pub(super) fn encrypt(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        let too_long = || format!("cannot encrypt {} bytes at once", text.len());
        match self {
            Self::EncryptPkcs1(key) => {
                let mut out = vec![0; key.ciphertext_size()];
                key.encrypt(text, &mut out).map(|out| out.to_vec()).map_err(|_| too_long())
            }
            Self::EncryptOaep(key, algorithm) => {
                let mut out = vec![0; key.ciphertext_size()];
                key.encrypt(algorithm, text, &mut out, None).map(|out| out.to_vec()).map_err(|_| too_long())
            }
            Self::EncryptSmall(key) => key.encrypt(text).ok_or_else(too_long),
            _ => Err("cannot be used for encryption".to_owned()),
        }
    }

    /// A message under a fresh AES key, and that key with its vector under this one, both in base64.
    pub(super) fn envelope(&self, message: &[u8]) -> Result<(String, String), String> {
        let failed = |_| "could not seal the message".to_owned();
        let (mut key, mut vector) = ([0; 32], [0; 16]);
        let random = SystemRandom::new();
        random.fill(&mut key).map_err(failed)?;
        random.fill(&mut vector).map_err(failed)?;
        let cipher = UnboundCipherKey::new(&AES_256, &key).and_then(PaddedBlockEncryptingKey::cbc_pkcs7);
        let mut sealed = message.to_vec();
        cipher
            .and_then(|cipher| {
                cipher.less_safe_encrypt(&mut sealed, EncryptionContext::Iv128(FixedLength::from(vector)))
            })
            .map_err(failed)?;
        let opener = format!("{}:{}", STANDARD.encode(key), STANDARD.encode(vector));
        Ok((STANDARD.encode(sealed), STANDARD.encode(self.encrypt(opener.as_bytes())?)))
    }

    /// Whether a signature or an HMAC over a message is right. In constant time.
    pub(super) fn verifies(&self, message: &[u8], proof: &[u8]) -> bool {
        match self {
            Self::Hmac(key) => hmac::verify(key, message, proof).is_ok(),
            Self::Verify(key) => key.verify(message, proof).is_ok(),
            _ => false,
        }
    }
}

fn check_rsa(info: &SubjectPublicKeyInfo<'_>, bits: Option<u32>) -> Result<(), String> {
    let Ok(PublicKey::RSA(key)) = info.parsed() else { return Err("expected an RSA key".to_owned()) };
    let found = u32::try_from(key.key_size()).unwrap_or(u32::MAX);
    match bits {
        Some(bits) if found != bits => return Err(format!("has {found} bits, expected {bits}")),
        None if found < BITS_MIN => {
            return Err(format!(
                "has {found} bits, expected {BITS_MIN} or more; if the rail has no better key, set bits = {found}"
            ));
        }
        _ => {}
    }
    match key.try_exponent() {
        Ok(exponent) if exponent == u64::from(EXPONENT) => Ok(()),
        _ => Err(format!("has another public exponent, expected {EXPONENT}")),
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rsa::{OaepPrivateDecryptingKey, Pkcs1PrivateDecryptingKey};

    use super::*;

    fn read(algorithm: Algorithm, text: &str) -> Key {
        Key::read(algorithm, None, text).expect("a good key")
    }

    #[test]
    fn what_a_key_signs_its_public_half_verifies() {
        let pair = Ed25519KeyPair::generate().expect("a key");
        let signs =
            read(Algorithm::SignEd25519, &pem("PRIVATE KEY", pair.to_pkcs8().expect("a document").as_ref()));
        let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).expect("a document");
        let verifies = read(Algorithm::VerifyEd25519, &pem("PUBLIC KEY", public.as_ref()));
        let signature = signs.sign(b"hello").expect("signed");
        assert!(verifies.verifies(b"hello", &signature) && !verifies.verifies(b"hullo", &signature));

        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        let signs = read(
            Algorithm::SignEcdsaP256Sha256,
            &pem("PRIVATE KEY", pair.to_pkcs8v1().expect("a document").as_ref()),
        );
        let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).expect("a document");
        let verifies = read(Algorithm::VerifyEcdsaP256Sha256, &pem("PUBLIC KEY", public.as_ref()));
        let signature = signs.sign(b"hello").expect("signed");
        assert_eq!(signature.len(), 64, "as JWS and RFC 9421 want it");
        assert!(verifies.verifies(b"hello", &signature) && !verifies.verifies(b"hullo", &signature));

        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).expect("a document");
        let signs = read(Algorithm::SignRsaPkcs1Sha256, &pem("PRIVATE KEY", der.as_ref()));
        let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).expect("a document");
        let verifies = read(Algorithm::VerifyRsaPkcs1Sha256, &pem("PUBLIC KEY", public.as_ref()));
        let signature = signs.sign(b"hello").expect("signed");
        assert!(verifies.verifies(b"hello", &signature) && !verifies.verifies(b"hullo", &signature));
        assert_eq!(signs.hmac(b"x"), Err("cannot be used for HMAC".into()));
    }

    /// RFC 4231, test case 2.
    #[test]
    fn hmac_is_the_published_one() {
        let key = read(Algorithm::HmacSha256, "Jefe");
        let mac = key.hmac(b"what do ya want for nothing?").expect("a code");
        assert_eq!(hex::encode(&mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert!(key.verifies(b"what do ya want for nothing?", &mac) && !key.verifies(b"nothing", &mac));
    }

    #[test]
    fn what_was_encrypted_only_the_private_key_reads() {
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).expect("a key");
        let der = AsDer::<PublicKeyX509Der<'_>>::as_der(&private.public_key()).expect("a document");
        let text = pem("PUBLIC KEY", der.as_ref());
        let sealed = read(Algorithm::EncryptRsaPkcs1, &text).encrypt(b"1234").expect("encrypted");
        let mut out = vec![0; 256];
        let opener = Pkcs1PrivateDecryptingKey::new(private.clone()).expect("a key");
        assert_eq!(opener.decrypt(&sealed, &mut out).expect("opened"), b"1234");

        let key = read(Algorithm::EncryptRsaOaepSha256, &text);
        let sealed = key.encrypt(b"1234").expect("encrypted");
        let opener = OaepPrivateDecryptingKey::new(private).expect("a key");
        assert_eq!(
            opener.decrypt(&OAEP_SHA256_MGF1SHA256, &sealed, &mut out, None).expect("opened"),
            b"1234"
        );
        assert!(key.encrypt(&[0; 300]).is_err());
    }

    #[test]
    fn a_small_key_is_taken_only_where_the_file_says_so_and_to_encrypt() {
        let small = include_str!("../../../config/rails/simulated/airtel.pub.pem");
        let refused = Key::read(Algorithm::EncryptRsaPkcs1, None, small).expect_err("it has 1024 bits");
        assert!(refused.contains("has 1024 bits, expected 2048 or more"), "{refused}");
        let refused = Key::read(Algorithm::EncryptRsaPkcs1, Some(2048), small).expect_err("it has 1024 bits");
        assert_eq!(refused, "has 1024 bits, expected 2048");
        let key = Key::read(Algorithm::EncryptRsaPkcs1, Some(1024), small).expect("the file says so");
        assert_eq!(key.encrypt(b"1234").expect("encrypted").len(), 128);
        assert!(key.encrypt(&[0; 118]).is_err(), "more than it takes");
        assert!(Key::read(Algorithm::VerifyRsaPkcs1Sha256, None, small).is_err());
    }
}
