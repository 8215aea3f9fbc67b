//! The results of a run.

use serde::{Deserialize, Serialize};

/// Verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The driver conforms to the manual.
    Passed,
    /// The driver does not conform, or it crashed or hung.
    Failed,
    /// The driver lacks the function: it is older.
    Absent,
}

/// One check's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The area of checks.
    pub area: String,
    /// The function, without the suffix of a version.
    pub function: String,
    /// A sentence that is true for a driver that conforms to the manual.
    pub check: String,
    /// The section of the manual.
    pub section: String,
    /// True if the manual states the claim explicitly; false if it is only implied.
    pub certain: bool,
    /// Verdict of the check.
    pub verdict: Verdict,
    /// Observation of a failed check; empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub saw: String,
}

impl CheckResult {
    /// The name for lists: function and claim.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}: {}", self.function, self.check)
    }
}

/// All results in the order of the areas.
#[derive(Debug, Default, Clone)]
pub struct Report {
    /// The results.
    pub results: Vec<CheckResult>,
    /// Seconds that the run took.
    pub seconds: f64,
}

impl Report {
    /// Number of checks with this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.results
            .iter()
            .filter(|it| it.verdict == verdict)
            .count()
    }
}
