//! The rails that this host serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rail::{Rail, Rails};

use crate::lane::Lane;

#[derive(Debug)]
pub(crate) struct Lanes(ArcSwap<BTreeMap<String, Arc<Lane>>>);

impl Lanes {
    pub(crate) fn new(rails: &Rails) -> Self {
        let lane = |rail: Arc<Rail>| (rail.name.clone(), Arc::new(Lane::new(rail)));
        Self(ArcSwap::from_pointee(rails.all().into_iter().map(lane).collect()))
    }

    pub(crate) fn get(&self, rail: &str) -> Option<Arc<Lane>> {
        self.0.load().get(rail).cloned()
    }

    /// The lanes by the names of their rails.
    pub(crate) fn all(&self) -> Arc<BTreeMap<String, Arc<Lane>>> {
        self.0.load_full()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.load().keys().cloned().collect()
    }

    pub(crate) fn add(&self, rail: Arc<Rail>) -> Arc<Lane> {
        let lane = Arc::new(Lane::new(rail));
        let mut lanes = BTreeMap::clone(&self.all());
        lanes.insert(lane.rail.name.clone(), lane.clone());
        self.0.store(Arc::new(lanes));
        lane
    }
}
