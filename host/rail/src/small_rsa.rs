//! Encryption under RSA keys that the cryptographic library of this host refuses or pads otherwise: the 1024 bits that Airtel
//! publishes, and OAEP with two different hashes. Only the public half is ever used, so what is known against this library's handling
//! of private keys (RUSTSEC-2023-0071) does not touch it.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use rsa::pkcs8::DecodePublicKey;
use rsa::rand_core::{CryptoRng, Error, RngCore};
use rsa::{Oaep, Pkcs1v15Encrypt, RsaPublicKey};

pub(super) struct SmallRsaKey {
    key: RsaPublicKey,
    padding: Padding,
}

#[derive(Clone, Copy)]
enum Padding {
    Pkcs1,
    OaepSha256Mgf1Sha1,
}

impl SmallRsaKey {
    pub(super) fn pkcs1(der: &[u8]) -> Result<Self, String> {
        Self::read(der, Padding::Pkcs1)
    }

    pub(super) fn oaep_sha256_mgf1_sha1(der: &[u8]) -> Result<Self, String> {
        Self::read(der, Padding::OaepSha256Mgf1Sha1)
    }

    fn read(der: &[u8], padding: Padding) -> Result<Self, String> {
        let key = RsaPublicKey::from_public_key_der(der).map_err(|_| "expected an RSA key".to_owned())?;
        Ok(Self { key, padding })
    }

    /// None where it is too long.
    pub(super) fn encrypt(&self, text: &[u8]) -> Option<Vec<u8>> {
        let sealed = match self.padding {
            Padding::Pkcs1 => self.key.encrypt(&mut Random, Pkcs1v15Encrypt, text),
            Padding::OaepSha256Mgf1Sha1 => {
                let padding = Oaep::new_with_mgf_hash::<rsa::sha2::Sha256, sha1::Sha1>();
                self.key.encrypt(&mut Random, padding, text)
            }
        };
        sealed.ok()
    }
}

/// The randomness of this host's own library.
struct Random;

impl RngCore for Random {
    fn next_u32(&mut self) -> u32 {
        rsa::rand_core::impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        rsa::rand_core::impls::next_u64_via_fill(self)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.try_fill_bytes(bytes).expect("the system has randomness");
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        let code = std::num::NonZeroU32::MIN.saturating_add(Error::CUSTOM_START);
        SystemRandom::new().fill(bytes).map_err(|_| Error::from(code))
    }
}

impl CryptoRng for Random {}
