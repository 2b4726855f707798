//! Scripts: which payment gets which timeline. It is chosen when the payment first arrives, and does not change after that.
//!
//! ```text
//! # who            how requests to pay are answered; questions; what becomes of the payment; what it is told
//! payee *453:      then pending
//! amount *.13:     then failed PAYEE_NOT_FOUND
//! amount *.17:     pay close-after
//! amount *.19:     pay hang-before, accept; ask html 503, accept; then pending, after 3s settled
//! amount *.23:     pay busy 2, busy, accept
//! amount *.29:     then missing, after 2s settled; call 1s, 1s
//! otherwise:       pay either 97 accept | 2 reset-after | 1 close-before
//! session html 503, accept
//! ```
//!
//! The first rule that fits decides; the parts of a rule are `pay`, `ask`, `then` and `call`, each may be left out. A pattern
//! may hold `*`, which stands for any characters; payee, amount and key are as the rail gets them (Airtel: no country code). A line
//! `session` belongs to no payment: it tells how requests for a token are answered from the time the script counts. Replies in `pay`,
//! `ask` and `session` go by request, the last one repeats:
//!
//! | reply | what happens |
//! |---|---|
//! | `accept` | what the rail answers when all is well |
//! | `close`, `reset`, `hang` | the connection is closed, reset or left open, without a reply |
//! | `truncate [N]` | the reply breaks off in its middle, with this status where one is given |
//! | `html N`, `empty N` | a page of a gateway, or nothing, with this status |
//! | `slow MS` | the reply comes later |
//! | `busy [SECONDS]` | 429, with `Retry-After` where seconds are given |
//! | `refuse N CODE` | an error of the rail with this status and code |
//! | `stranger CODE` | in `ask`: about another payment, which was refused with this code |
//! | `either N REPLY \| N REPLY …` | one of them by weight, the same one for the same seed, key and number of the request |
//!
//! In `pay` the payment is taken into the books all the same, unless the word ends in `-before`: `close-before`,
//! `html-before 502`, …; with `busy` and `refuse` it is the other way round: `refuse-after 500 CODE` takes it. In `session` the same
//! words decide whether a token was given out that nobody has heard of.
//!
//! What becomes of a payment is a list of `[after TIME] STATE`: `settled` (paid), `pending [WORD]` (the rail's own status),
//! `failed CODE`, `failed-VARIANT CODE` (another form in which the rail says so), `says WORD` (any status), `missing` (it is
//! there and cannot be found). It is paid when it first comes to be `settled`. `call` lists when the rail calls back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::fault::{Fault, FaultKind};
use crate::order::ReceivedPayment;

/// The timeline of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub(crate) pay: Vec<ScriptStep>,
    pub(crate) ask: Vec<ScriptStep>,
    pub(crate) then: Vec<Moment>,
    pub(crate) call: Vec<Duration>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            pay: vec![ScriptStep::Accept],
            ask: vec![ScriptStep::Accept],
            then: vec![Moment { after: Duration::ZERO, says: Says::Settled }],
            call: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScriptStep {
    Accept,
    Fault(Fault),
    Either(Vec<(u32, ScriptStep)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since the payment was taken.
    pub after: Duration,
    pub says: Says,
}

/// What the rail says of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    Settled,
    Pending(Option<String>),
    Failed { variant: Option<String>, code: String },
    Word(String),
    Missing,
}

impl Plan {
    /// The state at a time after it was taken.
    pub(crate) fn at(&self, age: Duration) -> &Says {
        let reached = self.then.iter().rev().find(|moment| moment.after <= age);
        reached.map_or(&Says::Pending(None), |moment| &moment.says)
    }

    /// At some time.
    pub(crate) fn is_paid(&self) -> bool {
        self.then.iter().any(|moment| moment.says == Says::Settled)
    }

    /// The fault, if any, of a request with this number, from 0.
    pub(crate) fn fault<'p>(
        steps: &'p [ScriptStep],
        request: u32,
        seed: &str,
        key: &str,
    ) -> Option<&'p Fault> {
        let last = steps.len().saturating_sub(1);
        let mut step = steps.get((request as usize).min(last))?;
        loop {
            match step {
                ScriptStep::Accept => return None,
                ScriptStep::Fault(fault) => return Some(fault),
                ScriptStep::Either(choices) => step = pick(choices, seed, key, request),
            }
        }
    }
}

/// FNV-1a over seed, key and number, then a number below the sum of weights.
fn pick<'p>(choices: &'p [(u32, ScriptStep)], seed: &str, key: &str, request: u32) -> &'p ScriptStep {
    let hash = format!("{seed}/{key}/{request}").bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let sum: u64 = choices.iter().map(|(weight, _)| u64::from(*weight)).sum();
    let mut left = (hash >> 16) % sum.max(1);
    for (weight, step) in choices {
        match left.checked_sub(u64::from(*weight)) {
            None => return step,
            Some(rest) => left = rest,
        }
    }
    &ScriptStep::Accept
}

#[derive(Debug)]
enum Who {
    Payee(String),
    Amount(String),
    Key(String),
    Anyone,
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    rules: Vec<(Who, Arc<Plan>)>,
    session: Vec<ScriptStep>,
    /// Requests for a token so far.
    sessions: AtomicU32,
}

impl Script {
    /// `variants` are the forms of a no that the rail has.
    pub(crate) fn parse(text: &str, variants: &[&str]) -> Result<Self, String> {
        let mut script = Self::default();
        for (n, line) in text.lines().enumerate() {
            let at = |problem: String| format!("line {}: {problem}", n + 1);
            // Also behind a rule: a space and a number sign.
            let line = line.split(" #").next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.strip_prefix("session ") {
                Some(_) if !script.session.is_empty() => return Err(at("a second session".to_owned())),
                Some(replies) => script.session = steps(replies).map_err(at)?,
                None => script.rules.push(rule(line, variants).map_err(at)?),
            }
        }
        Ok(script)
    }

    pub(crate) fn plan(&self, order: &ReceivedPayment) -> Option<Arc<Plan>> {
        let fits = |who: &Who| match who {
            Who::Payee(pattern) => fits(pattern, &order.payee),
            Who::Amount(pattern) => fits(pattern, &order.amount),
            Who::Key(pattern) => fits(pattern, &order.key),
            Who::Anyone => true,
        };
        self.rules.iter().find(|(who, _)| fits(who)).map(|(_, plan)| plan.clone())
    }

    /// The fault, if any, of the next request for a token.
    pub(crate) fn session_fault(&self, seed: &str) -> Option<&Fault> {
        let request = self.sessions.fetch_add(1, Ordering::Relaxed);
        Plan::fault(&self.session, request, seed, "session")
    }
}

fn rule(line: &str, variants: &[&str]) -> Result<(Who, Arc<Plan>), String> {
    let (who, parts) = line.split_once(':').ok_or("expected WHO: PART; PART; …")?;
    let who = match who.split_whitespace().collect::<Vec<_>>()[..] {
        ["payee", pattern] => Who::Payee(pattern.to_owned()),
        ["amount", pattern] => Who::Amount(pattern.to_owned()),
        ["key", pattern] => Who::Key(pattern.to_owned()),
        ["otherwise"] => Who::Anyone,
        _ => return Err(format!("expected payee, amount, key or otherwise, not {who:?}")),
    };
    Ok((who, Arc::new(plan(parts, variants)?)))
}

/// What stands behind the colon of a rule.
pub(crate) fn plan(parts: &str, variants: &[&str]) -> Result<Plan, String> {
    let mut plan = Plan::default();
    for part in parts.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let (word, rest) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
        let items = || rest.split(',').map(str::trim);
        match word {
            "pay" => plan.pay = steps(rest)?,
            "ask" => plan.ask = steps(rest)?,
            "then" => plan.then = items().map(|item| moment(item, variants)).collect::<Result<_, _>>()?,
            "call" => plan.call = items().map(time).collect::<Result<_, _>>()?,
            _ => return Err(format!("{word:?} is not a part; expected pay, ask, then or call")),
        }
    }
    Ok(plan)
}

fn steps(text: &str) -> Result<Vec<ScriptStep>, String> {
    text.split(',').map(|item| step(item.trim())).collect()
}

fn step(text: &str) -> Result<ScriptStep, String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    if word == "either" {
        return Ok(ScriptStep::Either(
            rest.split('|').map(|one| choice(one.trim())).collect::<Result<_, _>>()?,
        ));
    }
    let (word, said) = match (word.strip_suffix("-before"), word.strip_suffix("-after")) {
        (Some(word), _) => (word, Some(true)),
        (None, Some(word)) => (word, Some(false)),
        (None, None) => (word, None),
    };
    let status = |text: &str| match text.parse() {
        Ok(status @ 200..=599) => Ok(status),
        _ => Err(format!("{text:?} is not an HTTP status")),
    };
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{text:?} is not a number"));
    let kind = match (word, rest) {
        ("accept", "") if said.is_none() => return Ok(ScriptStep::Accept),
        ("close", "") => FaultKind::Close,
        ("reset", "") => FaultKind::Reset,
        ("hang", "") => FaultKind::Hang,
        ("truncate", "") => FaultKind::Truncate(None),
        ("truncate", rest) => FaultKind::Truncate(Some(status(rest)?)),
        ("html", rest) => FaultKind::Html(status(rest)?),
        ("empty", rest) => FaultKind::Empty(status(rest)?),
        ("slow", rest) => FaultKind::Slow(Duration::from_millis(number(rest)?.into())),
        ("busy", "") => FaultKind::Busy(None),
        ("busy", rest) => FaultKind::Busy(Some(number(rest)?)),
        ("stranger", code) if !code.is_empty() => FaultKind::Stranger(code.to_owned()),
        ("refuse", rest) => {
            let (http, code) = rest.split_once(char::is_whitespace).ok_or("expected refuse STATUS CODE")?;
            FaultKind::Refuse(status(http)?, code.trim().to_owned())
        }
        _ => {
            return Err(format!(
                "{text:?} is not a reply; expected accept, close, reset, hang, truncate, html, empty, slow, busy, refuse, stranger or either"
            ));
        }
    };
    let before = said.unwrap_or(matches!(kind, FaultKind::Busy(_) | FaultKind::Refuse(..)));
    Ok(ScriptStep::Fault(Fault { kind, before }))
}

fn choice(text: &str) -> Result<(u32, ScriptStep), String> {
    let (weight, then) = text.split_once(char::is_whitespace).ok_or("expected either N REPLY | N REPLY …")?;
    match weight.parse() {
        Ok(weight) if weight > 0 => Ok((weight, step(then.trim())?)),
        _ => Err(format!("{weight} is not a weight, expected a positive number")),
    }
}

fn moment(text: &str, variants: &[&str]) -> Result<Moment, String> {
    let (after, text) = match text.strip_prefix("after ") {
        None => (Duration::ZERO, text),
        Some(rest) => {
            let (after, state) =
                rest.trim().split_once(char::is_whitespace).ok_or("expected after TIME STATE")?;
            (time(after)?, state.trim())
        }
    };
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    if rest.contains(char::is_whitespace) {
        return Err(format!("{text:?} has more than one word behind {word}"));
    }
    let says = match (word, rest) {
        ("settled", "") => Says::Settled,
        ("missing", "") => Says::Missing,
        ("pending", "") => Says::Pending(None),
        ("pending", word) => Says::Pending(Some(word.to_owned())),
        ("says", word) if !word.is_empty() => Says::Word(word.to_owned()),
        ("failed", code) if !code.is_empty() => Says::Failed { variant: None, code: code.to_owned() },
        (failed, code) if failed.starts_with("failed-") && !code.is_empty() => {
            let variant = failed.trim_start_matches("failed-");
            if !variants.contains(&variant) {
                let known = variants.iter().map(|variant| format!("failed-{variant}")).collect::<Vec<_>>();
                return Err(format!("this rail has no {failed}, expected failed {}", known.join(" ")));
            }
            Says::Failed { variant: Some(variant.to_owned()), code: code.to_owned() }
        }
        _ => return Err(format!("{text:?} is not a state")),
    };
    Ok(Moment { after, says })
}

/// `500ms`, `3s`, `2m`.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time, expected 500ms, 3s or 2m");
    let (number, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit()).ok_or_else(wrong)?);
    let number: u32 = number.parse().map_err(|_| wrong())?;
    match unit {
        "ms" => Ok(Duration::from_millis(number.into())),
        "s" => Ok(Duration::from_secs(number.into())),
        "m" => Ok(Duration::from_secs(u64::from(number) * 60)),
        _ => Err(wrong()),
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    match rest.contains('*') {
        false => text.ends_with(rest),
        true => (0..=text.len()).any(|at| text.is_char_boundary(at) && fits(rest, &text[at..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_is_read_part_by_part() {
        let plan = plan(
            "pay hang-before, accept; ask html 503, accept; then pending CREATED, after 3s settled; call 1s",
            &[],
        )
        .expect("it is sound");
        let hang = Fault { kind: FaultKind::Hang, before: true };
        assert_eq!(plan.pay, [ScriptStep::Fault(hang.clone()), ScriptStep::Accept]);
        assert_eq!(Plan::fault(&plan.pay, 0, "", "k"), Some(&hang));
        assert_eq!(Plan::fault(&plan.pay, 7, "", "k"), None);
        assert_eq!(plan.at(Duration::from_secs(1)), &Says::Pending(Some("CREATED".into())));
        assert_eq!(plan.at(Duration::from_secs(3)), &Says::Settled);
        assert_eq!(plan.call, [Duration::from_secs(1)]);
    }

    #[test]
    fn a_payment_stays_paid_though_its_status_flaps() {
        let plan = plan("then settled, after 1s failed X", &[]).expect("it is sound");
        assert!(plan.is_paid());
        assert!(matches!(plan.at(Duration::from_secs(5)), Says::Failed { .. }));
    }

    #[test]
    fn stars_stand_for_any_characters_and_remarks_for_nothing() {
        for (pattern, text, expected) in [
            ("*.7*", "12.73", true),
            ("*.7*", "12.37", false),
            ("*13", "5.13", true),
            ("00*", "00ff", true),
            ("a*b", "ab", true),
            ("ab*ba", "aba", false),
            ("x", "xy", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
        let script =
            Script::parse("# one\namount 1: pay close-after   # paid, and lost\n", &[]).expect("it is sound");
        assert_eq!(script.rules.len(), 1);
    }

    #[test]
    fn sessions_belong_to_no_payment_and_are_counted_by_the_script() {
        let script = Script::parse("otherwise: then settled\nsession html 503, truncate 500, accept", &[])
            .expect("it is sound");
        let fault = |kind| Fault { kind, before: false };
        assert_eq!(script.session_fault(""), Some(&fault(FaultKind::Html(503))));
        assert_eq!(script.session_fault(""), Some(&fault(FaultKind::Truncate(Some(500)))));
        assert_eq!((script.session_fault(""), script.session_fault("")), (None, None));
        assert_eq!(Script::default().session_fault(""), None);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, problem) in [
            ("otherwise: then settled\nsomebody: then settled", "line 2: expected payee"),
            ("otherwise: pay gladly", "line 1: \"gladly\" is not a reply"),
            ("otherwise: pay html 1000", "line 1: \"1000\" is not an HTTP status"),
            ("otherwise: then after soon settled", "line 1: \"soon\" is not a time"),
            (
                "otherwise: then after 9999999999999999999m settled",
                "line 1: \"9999999999999999999m\" is not a time",
            ),
            ("otherwise: then failed-loudly X", "line 1: this rail has no failed-loudly"),
            (
                "otherwise: then failed AC04 as-group",
                "line 1: \"failed AC04 as-group\" has more than one word",
            ),
            ("otherwise: give up", "line 1: \"give\" is not a part"),
            ("otherwise: pay either 0 accept", "line 1: 0 is not a weight"),
            ("otherwise: pay truncate soon", "line 1: \"soon\" is not an HTTP status"),
            ("session gladly", "line 1: \"gladly\" is not a reply"),
            ("session accept\nsession accept", "line 2: a second session"),
            ("session", "line 1: expected WHO"),
        ] {
            let refused = Script::parse(text, &[]).expect_err(text);
            assert!(refused.starts_with(problem), "{refused}");
        }
    }
}
