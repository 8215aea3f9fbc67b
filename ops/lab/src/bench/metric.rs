//! Metrics of the benchmarks, their results, and the table of results.

use admin::table::headed;
use comfy_table::Table;
use serde::Serialize;
use serde_json::{Map, Value};

/// The goal of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// No goal: the value is to be read beside others.
    None,
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Goal {
    /// True if a value meets the goal; always true without a goal.
    #[must_use]
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::None => true,
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    fn text(self) -> String {
        match self {
            Self::None => String::new(),
            Self::AtMost(most) => format!("<= {}", digits(most)),
            Self::AtLeast(least) => format!(">= {}", digits(least)),
        }
    }
}

/// A metric as in the list of benchmarks.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its goal.
    pub goal: Goal,
    /// Description of the measured quantity.
    pub what: &'static str,
}

/// Constants of metrics: name, unit, goal, and description.
macro_rules! specs {
    ($($constant:ident = $name:literal, $unit:literal, $goal:expr, $what:literal;)*) => {
        $(pub(super) const $constant: $crate::bench::Spec = $crate::bench::Spec {
            name: $name,
            unit: $unit,
            goal: $goal,
            what: $what,
        };)*
    };
}

/// As `specs`, with `METRICS`, the list of them.
macro_rules! metrics {
    ($($constant:ident = $name:literal, $unit:literal, $goal:expr, $what:literal;)*) => {
        $crate::bench::specs! { $($constant = $name, $unit, $goal, $what;)* }
        /// All metrics measured here.
        pub(super) const METRICS: &[$crate::bench::Spec] = &[$($constant),*];
    };
}
pub(crate) use {metrics, specs};

/// Result of one metric: a line of `--json`.
#[derive(Debug, Clone, Serialize)]
pub struct Measurement {
    /// Name of the metric.
    pub metric: &'static str,
    /// Median over the repetitions; `None` if it could not be measured (`config.why`).
    pub value: Option<f64>,
    /// Its unit.
    pub unit: &'static str,
    /// Name of the baseline.
    pub baseline: Option<&'static str>,
    /// The baseline's median, in the unit of the compared quantity.
    pub baseline_value: Option<f64>,
    /// Smallest of the repetitions.
    pub min: Option<f64>,
    /// Largest of the repetitions.
    pub max: Option<f64>,
    /// Repetitions.
    pub reps: usize,
    /// Conditions, and other observations.
    pub config: Map<String, Value>,
    #[serde(skip)]
    goal: Goal,
}

impl Measurement {
    /// Makes a measurement from the values of its repetitions.
    #[must_use]
    pub fn new(spec: &Spec, values: &[f64]) -> Self {
        let mut config = Map::new();
        if spec.goal != Goal::None {
            config.insert("goal".into(), spec.goal.text().into());
        }
        let value = median(values);
        if let Some(value) = value {
            config.insert("goal_met".into(), spec.goal.is_met(value).into());
        }
        Self {
            metric: spec.name,
            value,
            unit: spec.unit,
            baseline: None,
            baseline_value: None,
            min: values.iter().copied().reduce(f64::min),
            max: values.iter().copied().reduce(f64::max),
            reps: values.len(),
            config,
            goal: spec.goal,
        }
    }

    /// Makes the measurement of a metric that could not be measured.
    #[must_use]
    pub fn missing(spec: &Spec, why: &str) -> Self {
        Self::new(spec, &[]).with("why", why)
    }

    /// Sets the baseline, with the values of its repetitions.
    #[must_use]
    pub fn against(mut self, baseline: &'static str, values: &[f64]) -> Self {
        self.baseline = Some(baseline);
        self.baseline_value = median(values);
        self
    }

    /// Adds a condition or another observation.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.config.insert(key.to_owned(), value.into());
        self
    }
}

/// The median of the values; of an even number, the mean of the middle two.
#[must_use]
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// Formats a value with four significant digits and grouped thousands.
fn digits(value: f64) -> String {
    if value.abs() < 1_000.0 {
        let decimals = if value == value.trunc() || value.abs() >= 100.0 {
            0
        } else if value.abs() >= 10.0 {
            1
        } else {
            3
        };
        return format!("{value:.decimals$}");
    }
    let whole = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in whole.char_indices() {
        let left = whole.len() - index;
        if left % 3 == 0 && text.ends_with(|last: char| last.is_ascii_digit()) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats all results as a table.
#[must_use]
pub(crate) fn table(metrics: &[Measurement]) -> Table {
    let mut table =
        headed("metric | value> | unit | goal |  | min> | max> | reps> | against | remarks");
    for metric in metrics {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), digits);
        let met = match metric.value {
            Some(_) if metric.goal == Goal::None => "",
            Some(value) if metric.goal.is_met(value) => "met",
            Some(_) => "missed",
            None => "not measured",
        };
        let against = metric.baseline.map_or(String::new(), |baseline| {
            format!("{baseline}: {}", number(metric.baseline_value))
        });
        let remarks = metric
            .config
            .iter()
            .filter(|(key, _)| !key.starts_with("goal"));
        let remarks: Vec<String> = remarks
            .map(|(key, value)| match value {
                Value::String(text) => format!("{key}: {text}"),
                Value::Number(value) => {
                    format!("{key}: {}", value.as_f64().map_or_else(String::new, digits))
                }
                other => format!("{key}: {other}"),
            })
            .collect();
        table.add_row([
            metric.metric.to_owned(),
            number(metric.value),
            metric.unit.to_owned(),
            metric.goal.text(),
            met.to_owned(),
            number(metric.min),
            number(metric.max),
            metric.reps.to_string(),
            against,
            remarks.join(", "),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: Spec = Spec {
        name: "takeover_ms",
        unit: "ms",
        goal: Goal::AtMost(50.0),
        what: "a test",
    };

    #[test]
    fn a_metric_is_the_median_of_its_repetitions() {
        let metric = Measurement::new(&SPEC, &[70.0, 10.0, 40.0]).against("bare", &[20.0, 10.0]);
        assert_eq!(
            (metric.value, metric.min, metric.max),
            (Some(40.0), Some(10.0), Some(70.0))
        );
        assert_eq!(metric.baseline_value, Some(15.0));
        assert_eq!(metric.config["goal_met"], true);
        assert_eq!(Measurement::new(&SPEC, &[51.0]).config["goal_met"], false);
    }

    #[test]
    fn a_metric_that_is_missing_says_why() {
        let metric = Measurement::missing(&SPEC, "no server");
        let json = serde_json::to_value(&metric).unwrap();
        assert!(json["value"].is_null() && json["config"]["why"] == "no server");
        assert!(json.get("goal").is_none());
        assert!(table(&[metric]).to_string().contains("not measured"));
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.123_456, 12.34, 256.7, 50.0, 1_234.5, 3_000_000.0].map(digits);
        assert_eq!(shown, ["0.123", "12.3", "257", "50", "1 234", "3 000 000"]);
    }
}
