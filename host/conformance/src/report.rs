use std::fmt;

use serde::Serialize;

use rail::Description;
use rail::artifact::CONTRACT;
use verdict::digest::Digest;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleResult {
    Passed,
    Failed,
    NotTested,
}

/// What was found about one rule.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    pub rule: &'static str,
    pub verdict: RuleResult,
    /// What was seen, or why it was not tested.
    pub detail: String,
    /// The requests that were sent, where something failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exchange: Vec<String>,
}

/// What was found about one component, by its digest.
#[derive(Debug, Serialize)]
pub struct SuiteReport {
    pub sha256: String,
    pub contract: &'static str,
    pub adapter: Option<Description>,
    pub cases: usize,
    pub findings: Vec<Finding>,
}

impl SuiteReport {
    pub(super) fn new(digest: Digest) -> Self {
        Self { sha256: digest.to_string(), contract: CONTRACT, adapter: None, cases: 0, findings: Vec::new() }
    }

    pub(super) fn passed(&mut self, rule: &'static str, detail: impl Into<String>) {
        self.findings.push(Finding {
            rule,
            verdict: RuleResult::Passed,
            detail: detail.into(),
            exchange: Vec::new(),
        });
    }

    pub(super) fn failed(&mut self, rule: &'static str, detail: impl Into<String>, exchange: Vec<String>) {
        self.findings.push(Finding { rule, verdict: RuleResult::Failed, detail: detail.into(), exchange });
    }

    pub(super) fn not_tested(&mut self, rules: impl IntoIterator<Item = &'static str>, why: &str) {
        let finding = |rule| Finding {
            rule,
            verdict: RuleResult::NotTested,
            detail: why.to_owned(),
            exchange: Vec::new(),
        };
        self.findings.extend(rules.into_iter().map(finding));
    }

    /// Something failed, or was not tested: only a suite that tried everything says yes.
    pub fn has_failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict != RuleResult::Passed)
    }
}

impl fmt::Display for SuiteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "sha256   {}", self.sha256)?;
        writeln!(f, "contract {}", self.contract)?;
        if let Some(adapter) = &self.adapter {
            writeln!(f, "adapter  {} {}", adapter.name, adapter.version)?;
        }
        writeln!(f)?;
        for finding in &self.findings {
            let mark = match finding.verdict {
                RuleResult::Passed => "passed    ",
                RuleResult::Failed => "FAILED    ",
                RuleResult::NotTested => "not tested",
            };
            writeln!(f, "{mark}  {:<23}  {}", finding.rule, finding.detail)?;
            for line in &finding.exchange {
                writeln!(f, "              > {line}")?;
            }
        }
        let count = |verdict| self.findings.iter().filter(|finding| finding.verdict == verdict).count();
        write!(
            f,
            "\n{} passed, {} failed, {} not tested, over {} recorded exchanges",
            count(RuleResult::Passed),
            count(RuleResult::Failed),
            count(RuleResult::NotTested),
            self.cases
        )
    }
}
