//! Progress on stderr.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// A bar for the whole run, and a line for each tenant.
pub struct ProgressLine {
    bars: MultiProgress,
    whole: ProgressBar,
    tenants: Vec<ProgressBar>,
}

impl ProgressLine {
    /// Shows a run of `seconds` with these tenants. If stderr is no terminal, nothing is drawn, but
    /// messages are printed.
    pub fn new<'n>(seconds: u64, tenants: impl Iterator<Item = &'n str>) -> Self {
        let bars = MultiProgress::new();
        let style = |template: &str| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
        };
        let whole = bars.add(ProgressBar::new(seconds * 1_000));
        whole.set_style(style("{bar:40.cyan/blue} {percent:>3} %  {msg}"));
        let tenants = tenants
            .map(|name| {
                let bar = bars.add(ProgressBar::new_spinner());
                bar.set_style(style("  {prefix:<10} {msg}"));
                bar.set_prefix(name.to_owned());
                bar
            })
            .collect();
        Self {
            bars,
            whole,
            tenants,
        }
    }

    /// Sets the message of the bar.
    pub fn says(&self, what: &str) {
        self.whole.set_message(what.to_owned());
        if self.whole.is_hidden() {
            admin::output::note(what);
        }
    }

    /// Prints a permanent line.
    pub fn note(&self, line: &str) {
        // Without stderr, a failure cannot be reported.
        if self.whole.is_hidden() || self.bars.println(line).is_err() {
            admin::output::note(line);
        }
    }

    /// Moves the bar to this time.
    pub fn advance(&self, elapsed: Duration) {
        self.whole.set_position(elapsed.as_millis() as u64);
    }

    /// Shows one tenant's figures.
    pub fn tenant(&self, index: usize, launches: u64, requests: u64, verified: u64, p99_ms: f64) {
        if let Some(bar) = self.tenants.get(index) {
            bar.set_message(format!(
                "{launches:>9} launches  {verified:>6}/{requests:<6} verified  p99 {p99_ms:>8.2} ms"
            ));
        }
    }

    /// Removes the display.
    pub fn finish(&self) {
        self.tenants.iter().for_each(ProgressBar::finish_and_clear);
        self.whole.finish_and_clear();
    }
}
