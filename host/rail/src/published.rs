//! Keys that a rail publishes: fetched like a token, and used only where people have approved them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use form::json::Json;

use super::cached_value::{Current, Lookup, Renewed};
use super::key::{Key, public_der};
use super::key_file::{Algorithm, FetchFile, KeyFile};
use verdict::digest::Digest;

#[derive(Debug)]
pub(super) struct PublishedKeys(BTreeMap<String, PublishedKey>);

#[derive(Debug)]
struct PublishedKey {
    algorithm: Algorithm,
    bits: Option<u32>,
    file: FetchFile,
    key: Renewed<Arc<Key>>,
}

/// A key of a test is good for ever.
const MADE_UP_FOR: Duration = Duration::from_secs(24 * 3600);

impl PublishedKeys {
    pub(super) fn new(keys: &BTreeMap<String, KeyFile>) -> Self {
        let slot = |(name, key): (&String, &KeyFile)| {
            let (file, algorithm, bits) = (key.fetch.clone()?, key.algorithm, key.bits);
            Some((name.clone(), PublishedKey { algorithm, bits, file, key: Renewed::default() }))
        };
        Self(keys.iter().filter_map(slot).collect())
    }

    /// For conformance tests: keys that exist nowhere else.
    pub(super) fn made_up(keys: &BTreeMap<String, KeyFile>) -> Result<Self, String> {
        let published = Self::new(keys);
        for slot in published.0.values() {
            slot.key.hold(Arc::new(Key::made_up(slot.algorithm)?), MADE_UP_FOR);
        }
        Ok(published)
    }

    /// The step that brings a key.
    pub(super) fn step(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|slot| slot.file.step.as_str())
    }

    /// The key, or the duty to fetch it; none where it is not one that is fetched.
    pub(super) async fn ask(&self, name: &str) -> Option<Lookup<Arc<Key>>> {
        Some(self.0.get(name)?.key.ask().await)
    }

    /// Takes a key from a reply. The error says why not, and is safe to show.
    pub(super) fn take(
        &self,
        name: &str,
        reply: &[u8],
        now: DateTime<Utc>,
    ) -> Result<Current<Arc<Key>>, String> {
        let slot = self.0.get(name).ok_or_else(|| format!("{name} is not a key that is fetched"))?;
        let reply = Json::read(reply).map_err(|error| format!("the reply {error}"))?;
        let text = |pointer: &str| match reply.at(pointer) {
            Some(Json::Text(text) | Json::Number(text)) => Some(text.as_str()),
            _ => None,
        };
        let der = text(&slot.file.value)
            .and_then(public_der)
            .ok_or_else(|| format!("the reply has no public key at {}", slot.file.value))?;
        let found = Digest::of(&der).to_string();
        if !slot.file.pins.contains(&found) {
            return Err(format!(
                "the rail publishes a key that is not approved: SHA-256 {found}, expected one of keys.{name}.fetch.pins"
            ));
        }
        let mut usable = Duration::from_secs(slot.file.refresh_seconds.into());
        if let Some(pointer) = &slot.file.ends {
            let said = text(pointer)
                .ok_or_else(|| format!("the reply does not say at {pointer} when the key ends"))?;
            let ends = moment(said)
                .ok_or_else(|| format!("the key ends at {pointer}, whose time format is unknown"))?;
            let left = (ends - now).to_std().ok().filter(|left| !left.is_zero());
            usable = usable.min(left.ok_or_else(|| "the rail publishes a key that has ended".to_owned())?);
        }
        let key = Key::public(slot.algorithm, slot.bits, &der)?;
        Ok(slot.key.hold(Arc::new(key), usable))
    }
}

/// A moment as rails write it: RFC 3339, the same with a blank and without a zone (then UTC), a day (until its end), or seconds or
/// milliseconds since 1970.
fn moment(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        return Some(moment.to_utc());
    }
    let plain = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"]
        .iter()
        .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    if let Some(plain) = plain {
        return Some(plain.and_utc());
    }
    if let Ok(day) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Some(day.succ_opt()?.and_hms_opt(0, 0, 0)?.and_utc());
    }
    let number: i64 = text.parse().ok().filter(|number| *number > 0)?;
    match number < 100_000_000_000 {
        true => DateTime::from_timestamp(number, 0),
        false => DateTime::from_timestamp_millis(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(more: &str) -> PublishedKeys {
        let file: KeyFile = toml::from_str(&format!(
            "algorithm = \"rsa-encrypt-pkcs1\"\nbits = 1024\n[fetch]\nstep = \"keys\"\nvalue = \"/data/key\"\n{more}"
        ))
        .expect("TOML");
        PublishedKeys::new(&BTreeMap::from([("pin".to_owned(), file)]))
    }

    fn published() -> (String, String) {
        let pem = include_str!("../../../config/rails/simulated/airtel.pub.pem");
        let bare: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let digest = Digest::of(&public_der(pem).expect("a key")).to_string();
        (bare, digest)
    }

    #[tokio::test]
    async fn a_key_is_used_only_where_it_was_approved_and_has_not_ended() {
        let now: DateTime<Utc> = "2026-05-01T12:00:00Z".parse().expect("a time");
        let (key, digest) = published();
        let reply = |ends: &str| {
            format!("{{\"data\": {{\"key\": \"{key}\", \"valid_upto\": \"{ends}\"}}}}").into_bytes()
        };
        let stranger = keys(&format!("pins = [\"{}\"]", "0".repeat(64)));
        let refused = stranger.take("pin", &reply(""), now).expect_err("nobody approved it");
        assert!(refused.contains(&format!("that is not approved: SHA-256 {digest}")), "{refused}");

        let approved = keys(&format!("pins = [\"{digest}\"]\nends = \"/data/valid_upto\""));
        for ended in ["2026-05-01 11:59:59", "2026-04-30", "1777636799", "1777636799000", "someday", ""] {
            assert!(approved.take("pin", &reply(ended), now).is_err(), "{ended}");
        }
        assert!(matches!(approved.ask("pin").await, Some(Lookup::Fetch(_))));
        for good in
            ["2026-05-01 12:00:01", "2026-05-01", "2026-05-01T14:00:01+02:00", "1777636801", "1777636801000"]
        {
            approved.take("pin", &reply(good), now).expect(good);
        }
        assert!(matches!(approved.ask("pin").await, Some(Lookup::Ready(_))));
        assert!(approved.ask("other").await.is_none());
    }
}
