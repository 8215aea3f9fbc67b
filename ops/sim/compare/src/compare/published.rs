//! Published figures of other schedulers, and the conditions under which they were measured.

use super::pair::Pair;
use crate::rival::Policy;
use crate::workload::Arrivals;

/// A published tail: the urgent program's shared 99th percentile divided by that alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublishedFigure {
    /// The lowest published value.
    pub low: f64,
    /// The highest published value.
    pub high: f64,
    /// Publication with the figure.
    pub source: &'static str,
}

impl PublishedFigure {
    /// True if a model of the policy is unfairly bad: above 1.2 times the highest published value.
    #[must_use]
    pub fn is_missed(&self, simulated: f64) -> bool {
        simulated > 1.2 * self.high
    }
}

/// The published figure of a policy, if there is one.
#[must_use]
pub fn published(policy: Policy) -> Option<PublishedFigure> {
    let figure = |low, high, source| Some(PublishedFigure { low, high, source });
    match policy {
        Policy::Ours | Policy::Native => None,
        Policy::TimeSlicing => figure(2.4, 2.4, "as quoted in the project's goals"),
        Policy::Mps => figure(3.9, 3.9, "as quoted in the project's goals"),
        Policy::Tgs => figure(
            2.889,
            2.889,
            "Tally, ASPLOS 2025: 188.9 % overhead on average",
        ),
        Policy::Orion => figure(1.14, 1.22, "Orion, EuroSys 2024, as quoted in the goals"),
        Policy::XSched => figure(1.02, 1.30, "XSched, OSDI 2025, as quoted in the goals"),
    }
}

/// Requests per second, by the beginning of the model's name, of the inference that Orion's published
/// artifact runs beside training (its configuration for figure 7, random arrivals). That is a load of a
/// tenth to a fifth; ours is a half.
pub const PUBLISHED_RATES: [(&str, f64); 3] =
    [("resnet50", 15.0), ("mobilenetv2", 40.0), ("bert", BERT)];
const BERT: f64 = 4.0;

/// The pair with its requests at the published rate; `None` if its model has none.
#[must_use]
pub fn at_published_rates(pair: &Pair) -> Option<Pair> {
    let name = &pair.urgent.name;
    let (_, rate) = PUBLISHED_RATES
        .iter()
        .find(|(start, _)| name.starts_with(start))?;
    let mut pair = pair.clone();
    pair.urgent.arrivals = Arrivals::Rate(*rate);
    Some(pair)
}
