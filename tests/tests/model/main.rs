//! One payment, two hosts, one rail: every interleaving. The hosts decide with the project's own functions (outcome, next step,
//! key), the outbox is the reference model that the SQL is tested against, and everything between them may be lost or late.
//! An adapter may doubt any verdict. A host may stop between any two steps for as long as it likes, and go on as if nothing had
//! happened.

mod search;
mod setup;
mod world;

use search::{Found, search};
use setup::{Bug, Setup};

/// Explores everything within the bounds, and says how much that was.
fn holds(name: &str, setup: Setup) -> usize {
    match search(&setup) {
        Found::Nothing { states } => {
            println!("{name}: holds in all {states} states");
            states
        }
        Found::Broken { what, story, .. } => panic!("{name}: {what}\n{}", story.join("\n")),
    }
}

fn breaks(name: &str, what_breaks: &str, setup: Setup) -> Vec<String> {
    match search(&setup) {
        Found::Nothing { states } => panic!("{name}: nothing is wrong in {states} states"),
        Found::Broken { what, story, states } => {
            println!("{name}: {what} after {states} states: {}", story.join(" · "));
            assert!(what.starts_with(what_breaks), "{what}: {story:?}");
            story
        }
    }
}

#[test]
fn a_rail_that_deduplicates_never_pays_twice_and_never_against_the_books() {
    assert!(holds("deduplicates, wide", Setup::WIDE) > 10_000);
    assert!(holds("deduplicates, deep", Setup::DEEP) > 10_000);
}

#[test]
fn not_even_where_the_database_forgets_what_it_acknowledged() {
    let setup = Setup { failovers: 1, kills: 0, losses: 0, attempts: 2, fickle: false, ..Setup::WIDE };
    assert!(holds("deduplicates, forgetful database", setup) > 10_000);
}

/// What asynchronous replication may still cost: nobody remembers the request that is under way when the second is turned away.
#[test]
fn unless_the_rail_turns_away_one_request_and_takes_another_one_for_the_same_key() {
    let setup = Setup { failovers: 1, kills: 0, losses: 0, expiries: 1, ..Setup::WIDE };
    breaks("fickle, forgetful database", "disagreed", setup);
}

#[test]
fn a_rail_that_does_not_deduplicate_is_safe_by_marks() {
    for (name, setup) in [("wide", Setup::WIDE), ("deep", Setup::DEEP)] {
        let setup = Setup { deduplicates: false, ..setup };
        assert!(holds(&format!("does not deduplicate, marks, {name}"), setup) > 1_000);
    }
}

/// Why a host refuses to serve such a rail from a database with a standby that may lag.
#[test]
fn nothing_saves_a_rail_that_does_not_deduplicate_from_a_database_that_forgets() {
    let setup = Setup { deduplicates: false, failovers: 1, kills: 0, losses: 0, ..Setup::WIDE };
    breaks("does not deduplicate, forgetful database", "doubled", setup);
}

#[test]
fn a_rail_that_has_to_be_left_alone_now_and_then_neither_pays_twice_nor_against_the_books() {
    for deduplicates in [true, false] {
        let setup = Setup { deduplicates, ..Setup::HELD };
        assert!(holds(&format!("holds, deduplicates: {deduplicates}"), setup) > 1_000);
    }
}

#[test]
fn a_veto_of_the_adapter_costs_a_question_and_never_money() {
    for deduplicates in [true, false] {
        let setup = Setup { deduplicates, ..Setup::VETOED };
        assert!(holds(&format!("vetoes, deduplicates: {deduplicates}"), setup) > 1_000);
    }
}

#[test]
fn a_veto_taken_for_a_refusal_is_found_out() {
    breaks("a veto is a refusal", "disagreed", Setup { bug: Some(Bug::VetoIsRefusal), ..Setup::VETOED });
}

#[test]
fn a_veto_taken_for_a_vote_is_found_out() {
    breaks("a veto is a vote", "disagreed", Setup { bug: Some(Bug::VetoIsVote), ..Setup::VETOED });
}

#[test]
fn replies_about_others_and_refusals_of_our_own_never_cost_money() {
    for deduplicates in [true, false] {
        let setup = Setup { deduplicates, ..Setup::MUDDLED };
        assert!(holds(&format!("muddled, deduplicates: {deduplicates}"), setup) > 1_000);
    }
}

#[test]
fn a_strangers_reply_that_counts_is_found_out() {
    breaks(
        "a stranger's reply counts",
        "disagreed",
        Setup { bug: Some(Bug::StrangersReplyCounts), ..Setup::MUDDLED },
    );
}

#[test]
fn a_local_refusal_after_bytes_left_is_found_out() {
    breaks(
        "a local refusal is final",
        "disagreed",
        Setup { bug: Some(Bug::LocalRefusalIsFinal), ..Setup::MUDDLED },
    );
}

#[test]
fn silence_taken_for_a_hold_is_found_out() {
    let setup = Setup { bug: Some(Bug::SilenceIsHold), deduplicates: false, ..Setup::HELD };
    breaks("silence is a hold", "doubled", setup);
}

#[test]
fn a_host_that_hands_back_what_it_sent_is_found_out() {
    let setup = Setup { bug: Some(Bug::HandsBackWhatItSent), ..Setup::DEEP };
    breaks("hands back what it sent", "disagreed", setup);
}

#[test]
fn a_new_key_for_every_attempt_is_found_out() {
    breaks("a new key for every attempt", "doubled", Setup { bug: Some(Bug::FreshKey), ..Setup::DEEP });
}

#[test]
fn silence_taken_for_a_refusal_is_found_out() {
    breaks("silence is a refusal", "disagreed", Setup { bug: Some(Bug::SilenceIsRefusal), ..Setup::DEEP });
}

#[test]
fn a_completion_without_a_fence_is_found_out() {
    breaks("no fence", "disagreed", Setup { bug: Some(Bug::NoFence), ..Setup::DEEP });
}
