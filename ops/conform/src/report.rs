//! What a run found.

use serde::{Deserialize, Serialize};

/// What became of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The driver does what the manual says.
    Passed,
    /// It does not, or it crashed or hung.
    Failed,
    /// It has no such function: an older driver.
    Absent,
}

/// One check's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Result {
    /// The area of checks.
    pub area: String,
    /// The function, without the suffix of a version.
    pub function: String,
    /// A sentence that holds of a driver as the manual describes it.
    pub check: String,
    /// The section of the manual.
    pub section: String,
    /// The manual says it in as many words; else it is read between the lines.
    pub certain: bool,
    /// What became of it.
    pub verdict: Verdict,
    /// What the check saw, where it failed.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub saw: String,
}

impl Result {
    /// The name in lists: function and claim.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}: {}", self.function, self.check)
    }
}

/// All results in the order of the areas.
#[derive(Debug, Default, Clone)]
pub struct Report {
    /// The results.
    pub results: Vec<Result>,
    /// Seconds that the run took.
    pub seconds: f64,
}

impl Report {
    /// How many checks ended so.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.results
            .iter()
            .filter(|it| it.verdict == verdict)
            .count()
    }
}
