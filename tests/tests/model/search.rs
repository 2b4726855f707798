//! Breadth first, so that the story of a mistake is the shortest there is.

use std::collections::{HashSet, VecDeque};

use crate::setup::Setup;
use crate::world::World;

/// A search that does not end within this is a mistake in the bounds, not in the protocol.
const STATES_MAX: usize = 3_000_000;

pub(crate) enum Found {
    Nothing { states: usize },
    Broken { what: String, story: Vec<String>, states: usize },
}

pub(crate) fn search(setup: &Setup) -> Found {
    let first = World::new(setup);
    let mut seen = HashSet::from([first.fingerprint()]);
    // How each state came about: the one before, and the step from there.
    let mut steps: Vec<(usize, String)> = vec![(0, "a payment is accepted".to_owned())];
    let mut ahead = VecDeque::from([(0, first)]);
    while let Some((at, world)) = ahead.pop_front() {
        for (step, next) in world.next(setup) {
            if !seen.insert(next.fingerprint()) {
                continue;
            }
            assert!(seen.len() < STATES_MAX, "more than {STATES_MAX} states");
            steps.push((at, step));
            let here = steps.len() - 1;
            if let Err(what) = next.check() {
                return Found::Broken { what, story: story(&steps, here), states: seen.len() };
            }
            ahead.push_back((here, next));
        }
    }
    Found::Nothing { states: seen.len() }
}

fn story(steps: &[(usize, String)], mut at: usize) -> Vec<String> {
    let mut story = Vec::new();
    while at > 0 {
        let (before, step) = &steps[at];
        story.push(step.clone());
        at = *before;
    }
    story.reverse();
    story
}
