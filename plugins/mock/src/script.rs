//! Scripts: which payment gets which timeline.
//!
//! ```text
//! # who                       what happens at the 1st, 2nd, … attempt; the last step repeats
//! destination 256700000013:   unclear TIMEOUT, not-found, settled
//! destination *99:            invalid destination
//! amount *.13:                declined PAYEE_NOT_FOUND
//! otherwise:                  either 9 settled | 1 unclear LOST
//! ```
//!
//! The first rule that fits decides; without any the payment is settled. In a pattern `*` stands for any characters. A destination
//! that begins with `script:` brings its own timeline: `script: pending, settled`.
//!
//! | step | at that attempt the script |
//! |---|---|
//! | `settled [CODE]`, `pending [CODE]`, `declined [CODE]`, `unclear [CODE]`, `not-found` | has the rail say so |
//! | `not-sent`, `silent` | has the rail be out of reach, or not answer |
//! | `invalid FIELD` | refuses the payment in `validate` |
//! | `delay MS STEP` | waits first |
//! | `either N STEP \| N STEP …` | picks one by weight, the same one for the same seed, payee, amount and attempt |
//! | `trap`, `spin`, `bomb` | fails: a panic, an endless loop, all memory it can get |
//! | `lie` | has the rail say settled, and reads declined |

use rail_sdk::Payment;
use rail_sdk::prelude::*;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Settled(Option<String>),
    Pending(Option<String>),
    Declined(Option<String>),
    Unclear(Option<String>),
    NotFound,
    NotSent,
    Silent,
    Invalid(String),
    Delay(u64, Box<Step>),
    Either(Vec<(u32, Step)>),
    Trap,
    Spin,
    Bomb,
    Lie,
}

#[derive(Debug, PartialEq)]
enum Who {
    Destination(String),
    Amount(String),
    Anyone,
}

#[derive(Debug, PartialEq)]
struct Rule {
    who: Who,
    steps: Vec<Step>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Script(Vec<Rule>);

impl Script {
    pub(crate) fn of(payment: &Payment) -> Result<Self, String> {
        Self::parse(payment.setting("script").unwrap_or_default())
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            rules.push(rule(line).map_err(|problem| format!("line {}: {problem}", n + 1))?);
        }
        Ok(Self(rules))
    }

    pub(crate) fn steps_for(&self, payment: &Payment) -> Cow<'_, [Step]> {
        // A single text has no name.
        let destination = ["msisdn", "account", ""].iter().find_map(|name| payment.part(name)).unwrap_or("");
        if let Some(own) = destination.strip_prefix("script:") {
            return steps(own)
                .unwrap_or_else(|problem| vec![Step::Invalid(format!("destination ({problem})"))])
                .into();
        }
        self.0
            .iter()
            .find(|rule| match &rule.who {
                Who::Destination(pattern) => fits(pattern, destination),
                Who::Amount(pattern) => fits(pattern, &payment.amount),
                Who::Anyone => true,
            })
            .map_or(Cow::Borrowed(&[Step::Settled(None)]), |rule| Cow::Borrowed(&rule.steps))
    }
}

fn rule(line: &str) -> Result<Rule, String> {
    let (who, timeline) = line.split_once(':').ok_or("expected WHO: STEP, STEP, …")?;
    let who = match who.split_whitespace().collect::<Vec<_>>()[..] {
        ["destination", pattern] => Who::Destination(pattern.to_owned()),
        ["amount", pattern] => Who::Amount(pattern.to_owned()),
        ["otherwise"] => Who::Anyone,
        _ => return Err(format!("expected destination, amount or otherwise, not {who:?}")),
    };
    Ok(Rule { who, steps: steps(timeline)? })
}

fn steps(timeline: &str) -> Result<Vec<Step>, String> {
    timeline.split(',').map(|text| step(text.trim())).collect()
}

fn step(text: &str) -> Result<Step, String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let code = (!rest.is_empty()).then(|| rest.to_owned());
    Ok(match word {
        "settled" => Step::Settled(code),
        "pending" => Step::Pending(code),
        "declined" => Step::Declined(code),
        "unclear" => Step::Unclear(code),
        "invalid" => Step::Invalid(code.ok_or("invalid needs the name of a field")?),
        "delay" => {
            let (ms, then) = rest.split_once(char::is_whitespace).ok_or("expected delay MS STEP")?;
            let ms = ms.parse().map_err(|_| format!("{ms} is not a number of milliseconds"))?;
            Step::Delay(ms, Box::new(step(then.trim())?))
        }
        "either" => Step::Either(rest.split('|').map(|one| choice(one.trim())).collect::<Result<_, _>>()?),
        _ if code.is_some() => return Err(format!("{word} takes nothing after it, or is not a step")),
        "not-found" => Step::NotFound,
        "not-sent" => Step::NotSent,
        "silent" => Step::Silent,
        "trap" => Step::Trap,
        "spin" => Step::Spin,
        "bomb" => Step::Bomb,
        "lie" => Step::Lie,
        _ => return Err(format!("{word:?} is not a step")),
    })
}

fn choice(text: &str) -> Result<(u32, Step), String> {
    let (weight, then) = text.split_once(char::is_whitespace).ok_or("expected either N STEP | N STEP …")?;
    match weight.parse() {
        Ok(weight) if weight > 0 => Ok((weight, step(then.trim())?)),
        _ => Err(format!("{weight} is not a weight, expected a positive number")),
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
    fn a_script_is_read_line_by_line() {
        let script =
            Script::parse("# first\namount *.13: declined X, settled\n\notherwise: delay 20 pending\n")
                .expect("it is sound");
        assert_eq!(script.0.len(), 2);
        assert_eq!(script.0[0].who, Who::Amount("*.13".into()));
        assert_eq!(script.0[0].steps, [Step::Declined(Some("X".into())), Step::Settled(None)]);
        assert_eq!(script.0[1].steps, [Step::Delay(20, Box::new(Step::Pending(None)))]);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, problem) in [
            ("otherwise: settled\nsomebody: settled", "line 2: expected destination"),
            ("otherwise: paid", "line 1: \"paid\" is not a step"),
            ("otherwise: delay soon settled", "line 1: soon is not a number"),
            ("otherwise: either 0 settled", "line 1: 0 is not a weight"),
            ("otherwise: trap now", "line 1: trap takes nothing"),
            ("settled", "line 1: expected WHO"),
        ] {
            let refused = Script::parse(text).expect_err(text);
            assert!(refused.starts_with(problem), "{refused}");
        }
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        assert!(fits("*13", "5.13") && fits("00*", "00ff") && fits("a*b", "ab") && fits("x", "x"));
        assert!(fits("*.7*", "12.73") && !fits("*.7*", "12.37"));
        assert!(!fits("*13", "5.14") && !fits("ab*ba", "aba") && !fits("x", "xy"));
    }
}
