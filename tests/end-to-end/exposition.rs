//! A strict reader of Prometheus' text format 0.0.4, written from its specification and not from
//! our output. Text that it refuses would also be refused by some servers.

use std::collections::{BTreeMap, BTreeSet};

/// A series: its name and its labels.
type Series = (String, BTreeMap<String, String>);

/// A page of metrics.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The types of metrics, by family.
    pub(crate) kinds: BTreeMap<String, String>,
    values: BTreeMap<Series, f64>,
}

impl Page {
    /// Reads a page.
    ///
    /// # Panics
    /// With the line that is wrong.
    pub(crate) fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has an end");
        let (mut page, mut helped) = (Self::default(), None);
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a name and its help");
                assert!(is_name(name) && !help.is_empty(), "{line}");
                helped = Some(name.to_owned());
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and its kind");
                assert_eq!(helped.as_deref(), Some(name), "help comes before {line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let known = page.kinds.insert(name.into(), kind.into());
                assert_eq!(known, None, "each family comes once: {line}");
            } else {
                let (series, value) = sample(line);
                let family = helped.as_deref().expect("a family");
                page.belongs(family, &series, value, line);
                let known = page.values.insert(series, value);
                assert_eq!(known, None, "each series comes once: {line}");
            }
        }
        page.check_histograms();
        page
    }

    fn belongs(&self, family: &str, (name, labels): &Series, value: f64, line: &str) {
        let kind = self.kinds.get(family).map(String::as_str);
        let part = name.strip_prefix(family);
        let fits = match kind {
            Some("histogram") => match part {
                Some("_bucket") => labels.contains_key("le"),
                part => matches!(part, Some("_sum" | "_count")),
            },
            Some("counter") => part == Some("") && name.ends_with("_total") && value >= 0.0,
            kind => kind == Some("gauge") && part == Some(""),
        };
        assert!(fits, "{line} is not of {family}, a {kind:?}");
    }

    /// Checks that buckets grow, and that the last one counts all.
    fn check_histograms(&self) {
        let buckets = self.values.iter().filter_map(|((name, labels), value)| {
            let family = name.strip_suffix("_bucket")?;
            let mut others = labels.clone();
            let bound: f64 = others.remove("le")?.parse().expect("a bound");
            Some(((family.to_owned(), others), (bound, *value)))
        });
        let mut histograms = BTreeMap::<Series, Vec<(f64, f64)>>::new();
        for (series, bucket) in buckets {
            histograms.entry(series).or_default().push(bucket);
        }
        for ((family, labels), mut buckets) in histograms {
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            assert!(
                buckets.is_sorted_by_key(|(_, count)| *count),
                "{family} {labels:?}"
            );
            let (bound, all) = buckets[buckets.len() - 1];
            assert_eq!(bound, f64::INFINITY, "{family}");
            assert_eq!(self.values[&(format!("{family}_count"), labels)], all);
        }
    }

    /// The values of a metric, with their labels.
    pub(crate) fn of<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a BTreeMap<String, String>, f64)> {
        let values = self.values.iter().filter(move |((of, _), _)| of == name);
        values.map(|((_, labels), value)| (labels, *value))
    }

    /// The sum of all values of a metric.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.of(name).map(|(_, value)| value).sum()
    }

    /// The values of a metric by one of its labels, summed over the others.
    pub(crate) fn by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for (labels, value) in self.of(name) {
            let label = labels.get(label).cloned().unwrap_or_default();
            *sums.entry(label).or_default() += value;
        }
        sums
    }

    /// All values of a label.
    pub(crate) fn labels(&self, label: &str) -> BTreeSet<&str> {
        let labels = self
            .values
            .keys()
            .filter_map(|(_, labels)| labels.get(label));
        labels.map(String::as_str).collect()
    }
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':')
}

fn sample(line: &str) -> (Series, f64) {
    let end = line.find(['{', ' ']).expect("a name has an end");
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, behind) = rest.split_once("=\"").expect("a label has a value");
            assert!(is_name(label) && !label.contains(':'), "{line}");
            let (value, behind) = quoted(behind);
            let known = labels.insert(label.to_owned(), value);
            assert_eq!(known, None, "each label comes once: {line}");
            rest = behind.strip_prefix(',').unwrap_or(behind);
            assert!(behind.starts_with([',', '}']), "{line}");
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').expect("a space before the value");
    let value = match value {
        "+Inf" => f64::INFINITY,
        value => value
            .parse()
            .unwrap_or_else(|_| panic!("no number: {line}")),
    };
    assert!(!value.is_nan(), "{line}");
    ((name.to_owned(), labels), value)
}

/// A label's value up to its closing quote, and the rest of the text.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, c @ ('\\' | '"'))) => value.push(c),
                other => panic!("no escape: {other:?} in {text}"),
            },
            c => value.push(c),
        }
    }
    panic!("no closing quote: {text}")
}

#[test]
fn what_is_no_page_is_not_taken() {
    let head = "# HELP a_total h\n# TYPE a_total counter\n";
    let taken = |text: String| std::panic::catch_unwind(|| Page::read(&text)).is_ok();
    assert!(taken(format!(
        "{head}a_total{{x=\"\\\"\\\\\\n,}}\",y=\"\"}} 1\n"
    )));
    for wrong in [
        "a_total 1",
        "b_total 1\n",
        "a_total -1\n",
        "a_total x\n",
        "a_total{x=\"1\n",
        "a_total{x=\"\\t\"} 1\n",
        "a_total{x=\"1\",x=\"1\"} 1\n",
        "a_total 1\na_total 2\n",
    ] {
        assert!(!taken(format!("{head}{wrong}")), "{wrong}");
    }
}
