//! What the rails of a storm do by themselves, decided by the cents of a payment.

use std::collections::BTreeMap;

use fastrand::Rng;
use rail_simulators::Name;

use crate::world::{Wanted, World};

/// Of a hundred payments so many have these cents; the rest are plain.
const TEMPERS: [(u8, &str, &str); 16] = [
    (2, "01", "pay close-after"),
    (2, "02", "pay reset-after"),
    (1, "03", "pay hang-after"),
    (2, "04", "pay truncate"),
    (2, "05", "pay close-before, accept"),
    (2, "06", "pay reset-before, accept"),
    (1, "07", "pay hang-before, accept"),
    (2, "08", "pay html-before 502, accept"),
    (1, "09", "then missing, after 2s settled"),
    (1, "10", "pay close-after; then missing, after 2s settled"),
    (1, "11", "then pending, after 300ms missing, after 900ms pending, after 1500ms settled"),
    (2, "12", "pay slow 500"),
    (3, "13", "then failed NO"),
    (2, "14", "then pending, after 600ms settled; call 300ms, 300ms, 700ms"),
    (2, "15", "pay close-after; ask html 503, close, accept"),
    (1, "16", "then pending"),
];

const LATE: [&str; 2] = ["09", "10"];
const FLAPS: [&str; 1] = ["11"];

fn script(no: &str) -> String {
    let rule =
        |(_, cents, plan): &(u8, &str, &str)| format!("amount *.{cents}: {}\n", plan.replace("NO", no));
    TEMPERS.iter().map(rule).collect()
}

/// Three that recognise a key, and a bank that does not and cannot be asked.
pub(super) fn rails() -> Vec<Wanted> {
    vec![
        Wanted::new(Name::Mtn, &script("PAYEE_NOT_FOUND")),
        Wanted::new(Name::Airtel, &script("DP00900001012")),
        Wanted::new(Name::Bank, &script("AC04")),
        Wanted {
            name: "plain-bank",
            forgetful: true,
            can_query: false,
            ..Wanted::new(Name::Bank, &script("AC04"))
        },
    ]
}

pub(super) fn amount(rng: &mut Rng) -> String {
    let mut left = rng.u8(..100);
    let cents = TEMPERS.iter().find(|(weight, ..)| {
        let here = left < *weight;
        left = left.saturating_sub(*weight);
        here
    });
    format!("{}.{}", rng.u32(1..500), cents.map_or("50", |(_, cents, _)| cents))
}

/// Requests and replies that were lost, late or slow. An error that a rail answers is no fault.
pub(super) fn faults(world: &World) -> BTreeMap<String, u64> {
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |kind: &str, count: u64| *faults.entry(kind.to_owned()).or_default() += count;
    for rail in &world.rails {
        for (name, count) in rail.simulator.counts().faults {
            match name.as_str() {
                "close-after" | "reset-after" | "hang-after" | "truncate-after" => {
                    add("paid, reply lost", count)
                }
                "close-before" | "reset-before" | "hang-before" => add("not paid, no reply", count),
                "slow-after" => add("slow rail", count),
                _ => {}
            }
        }
        let with = |cents: &[&str]| {
            let entries = rail.simulator.entries();
            let found = entries
                .iter()
                .filter(|entry| cents.iter().any(|cents| entry.amount.ends_with(&format!(".{cents}"))));
            found.count() as u64
        };
        add("late execution", with(&LATE));
        add("status flaps", with(&FLAPS));
    }
    faults
}
