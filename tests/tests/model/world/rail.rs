//! What becomes of requests and replies under way, and what the rail does with what arrives.

use form::Veto;
use harness::reference::{Micros, SECOND};

use super::host::is_verdict;
use super::{Account, Host, Message, Said, VISIBILITY_SECONDS, WORKERS, What, World};
use crate::setup::Setup;

impl World {
    pub(super) fn network_acts(&self, at: usize, setup: &Setup, next: &mut Vec<(String, Self)>) {
        let message = &self.under_way[at];
        let mut without = self.clone();
        without.under_way.remove(at);
        match message.what {
            What::Said(said) => {
                let waits =
                    |host: &Host| matches!(host, Host::Waiting { held, .. } if held.token == message.token);
                // Nobody waits for it: it is not even lost.
                let Some(host) = self.hosts.iter().position(waits) else { return };
                without.reply_arrives(host, said, setup, next);
            }
            What::Ask => {
                for said in self.answers(&message.key) {
                    next.push((format!("the rail answers {said:?}"), without.with_reply(message, said)));
                }
            }
            What::Pay => without.request_arrives(message, setup, next),
        }
        if self.losses > 0 {
            without.losses -= 1;
            next.push((format!("{:?} is lost", message.what), without));
        }
    }

    /// What becomes of a reply, which is no longer under way.
    fn reply_arrives(&self, host: usize, said: Said, setup: &Setup, next: &mut Vec<(String, Self)>) {
        let (name, Host::Waiting { held, asks }) = (WORKERS[host], &self.hosts[host]) else { return };
        let mut world = self.clone();
        world.decides(host, held, *asks, Some(said), None, setup);
        next.push((format!("{name} hears {said:?}"), world));
        // The adapter may doubt a verdict, and nothing else.
        if self.vetoes > 0 && is_verdict(*asks, said) {
            let mut world = self.clone();
            world.vetoes -= 1;
            world.decides(host, held, *asks, Some(said), Some(Veto::Doubt), setup);
            next.push((format!("{name} hears {said:?}, and its adapter doubts it"), world));
        }
        if self.strangers > 0 {
            for other in [Said::Settled, Said::Failed, Said::NotFound] {
                let mut world = self.clone();
                world.strangers -= 1;
                world.hears_of_another(host, held, *asks, other, setup);
                next.push((format!("{name} hears {other:?} of another payment"), world));
            }
        }
    }

    /// What becomes of a request to pay, which is no longer under way.
    fn request_arrives(&self, message: &Message, setup: &Setup, next: &mut Vec<(String, Self)>) {
        for (account, said) in self.arrivals(&message.key, setup) {
            let mut world = self.with_reply(message, said);
            if said == Said::Held {
                world.holds -= 1;
            }
            if !setup.fickle {
                world.turns_away = Some(said == Said::Refused);
            }
            if let Some(account) = account {
                world.rail.insert(message.key, account);
            }
            next.push((format!("the request arrives: {said:?}"), world));
        }
    }

    /// What a request to pay may lead to.
    fn arrivals(&self, key: &[u8; 36], setup: &Setup) -> Vec<(Option<Account>, Said)> {
        let known = self.rail.get(key).copied();
        if let Some(known) = known.filter(|_| setup.deduplicates) {
            return vec![(Some(known), Said::Duplicate)];
        }
        let executions = known.map_or(0, |known| known.executions);
        let account = |executions, said| Some(Account { executions, said, arrived_at: self.outbox.now });
        let taken = [
            (account(executions + 1, Said::Settled), Said::Settled),
            (account(executions, Said::Accepted), Said::Accepted),
        ];
        let turned_away = [(known, Said::Refused)];
        let held = [(known, Said::Held)].into_iter().filter(|_| self.holds > 0);
        let decided = match self.turns_away {
            None => taken.into_iter().chain(turned_away).collect(),
            Some(false) => taken.to_vec(),
            Some(true) => turned_away.to_vec(),
        };
        decided.into_iter().chain(held).collect()
    }

    /// What the rail may say to a question.
    fn answers(&self, key: &[u8; 36]) -> Vec<Said> {
        let Some(account) = self.rail.get(key) else { return vec![Said::NotFound] };
        let visible_at = account.arrived_at + Micros::from(VISIBILITY_SECONDS) * SECOND;
        match self.outbox.now < visible_at {
            true => vec![account.said, Said::NotFound],
            false => vec![account.said],
        }
    }

    /// What was accepted is paid or refused at any time.
    pub(super) fn rail_acts(&self, next: &mut Vec<(String, Self)>) {
        for (key, account) in self.rail.iter().filter(|(_, account)| account.said == Said::Accepted) {
            for (said, executions) in
                [(Said::Settled, account.executions + 1), (Said::Failed, account.executions)]
            {
                let mut world = self.clone();
                world.rail.insert(*key, Account { said, executions, ..*account });
                next.push((format!("the rail makes it {said:?}"), world));
            }
        }
    }

    fn with_reply(&self, to: &Message, said: Said) -> Self {
        let mut world = self.clone();
        // A reply that nobody waits for is as good as lost.
        if self.hosts.iter().any(|host| matches!(host, Host::Waiting { held, .. } if held.token == to.token))
        {
            world.under_way.push(Message { what: What::Said(said), ..to.clone() });
            world.under_way.sort_unstable();
        }
        world
    }
}
