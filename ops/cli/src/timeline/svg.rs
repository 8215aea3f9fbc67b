//! The picture as SVG: light or dark like the reader's screen, with a description of each bar on
//! hovering.

use std::fmt::Write;

use super::{Bar, SPAN, Timeline};

const LEFT: f64 = 150.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 62.0;
/// Height of a lane with the space below it, and of a bar in it.
const LANE: f64 = 20.0;
const THICK: f64 = 15.0;
/// Space above each device's lanes, for its name.
const NAME: f64 = 24.0;
/// Colours by priority, distinct also for readers with red-green blindness, on white and on black.
const COLOURS: [&str; 5] = ["#d55e00", "#d99a00", "#009e73", "#3a8fd0", "#8c8c8c"];

const STYLE: &str = "\
<style>
svg { color: #1b1f24; } .ground { fill: #ffffff; } .lane { fill: #f3f4f6; } .line { stroke: #d5d9de; }
text { fill: currentColor; } .note { fill: #5b6470; } .void { fill: #c2185b; }
@media (prefers-color-scheme: dark) {
svg { color: #e4e7eb; } .ground { fill: #14171a; } .lane { fill: #1f242a; } .line { stroke: #3a424b; }
.note { fill: #9aa4b0; } .void { fill: #ff6f9f; }
}
</style>";

/// Nanoseconds in a unit suitable for a slice.
fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        _ => format!("{:.2} ms", ns as f64 / 1e6),
    }
}

impl Timeline {
    /// The picture as an SVG document.
    #[must_use]
    pub fn svg(&self) -> String {
        let lanes: usize = self.devices.iter().map(|device| device.lanes.len()).sum();
        let field = NAME * self.devices.len() as f64 + LANE * lanes as f64;
        let (width, height) = (LEFT + SPAN + RIGHT, TOP + field + BOTTOM);
        let mut svg = String::new();
        // Writing to a string does not fail, here and below.
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <title>Launch order</title>\n{STYLE}\n\
             <rect class=\"ground\" width=\"100%\" height=\"100%\"/>"
        );
        self.head(&mut svg);
        let mut y = TOP;
        for device in &self.devices {
            y += NAME;
            for _ in &device.lanes {
                let _ = writeln!(
                    svg,
                    "<rect class=\"lane\" x=\"{LEFT}\" y=\"{y}\" width=\"{SPAN}\" height=\"{THICK}\"/>"
                );
                y += LANE;
            }
        }
        // In front of the lanes, behind the bars.
        self.axis(&mut svg, TOP + field);
        y = TOP;
        for device in &self.devices {
            text(
                &mut svg,
                (16.0, y + 16.0),
                "font-weight=\"bold\"",
                &device.name,
            );
            y += NAME;
            for lane in &device.lanes {
                text(&mut svg, (30.0, y + 12.0), "", &lane.tenant);
                // Void slices take no time, so they are drawn in front of the others to be visible.
                let (void, ran): (Vec<_>, Vec<_>) = lane.bars.iter().partition(|bar| bar.void);
                for bar in ran.into_iter().chain(void) {
                    self.bar(&mut svg, bar, &lane.tenant, y);
                }
                y += LANE;
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Title and legend.
    fn head(&self, svg: &mut String) {
        let (from, to) = self.interval;
        let title = format!(
            "Launch order, global positions {from} to {to}: {} positions",
            self.positions
        );
        text(svg, (16.0, 26.0), "font-size=\"16\"", &title);
        let bars = || {
            let lanes = self.devices.iter().flat_map(|device| &device.lanes);
            lanes.flat_map(|lane| &lane.bars)
        };
        let mut x = 16.0;
        for (priority, colour) in (0..).zip(COLOURS) {
            if !bars().any(|bar| bar.priority == priority) {
                continue;
            }
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"46\" width=\"14\" height=\"14\" fill=\"{colour}\"/>"
            );
            text(svg, (x + 20.0, 58.0), "", &format!("priority {priority}"));
            x += 92.0;
        }
        if bars().any(|bar| bar.void) {
            let _ = writeln!(
                svg,
                "<rect class=\"void\" x=\"{x}\" y=\"46\" width=\"3\" height=\"14\"/>"
            );
            text(svg, (x + 10.0, 58.0), "", "void: nothing ran, queued again");
            x += 200.0;
        }
        if self.unknown > 0 {
            let note = format!("{} positions without a recorded end left out", self.unknown);
            text(svg, (x + 6.0, 58.0), "class=\"note\"", &note);
        }
    }

    fn axis(&self, svg: &mut String, bottom: f64) {
        let (unit, ns) = match self.span {
            0..5_000_000 => ("us", 1e3),
            5_000_000..20_000_000_000 => ("ms", 1e6),
            _ => ("s", 1e9),
        };
        for tick in ticks(self.span as f64 / ns) {
            let x = LEFT + tick * ns / self.span as f64 * SPAN;
            let _ = writeln!(
                svg,
                "<line class=\"line\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>"
            );
            let shown = format!("{tick:.2}");
            let shown = shown.trim_end_matches('0').trim_end_matches('.');
            text(svg, (x, bottom + 16.0), "text-anchor=\"middle\"", shown);
        }
        let label = format!(
            "device time, {unit}: measured durations end to end in each GPU's order; waiting and \
             idle time left out"
        );
        let middle = LEFT + SPAN / 2.0;
        text(
            svg,
            (middle, bottom + 40.0),
            "text-anchor=\"middle\" class=\"note\"",
            &label,
        );
    }

    fn bar(&self, svg: &mut String, bar: &Bar, tenant: &str, y: f64) {
        let x = |ns: u64| LEFT + ns as f64 / self.span as f64 * SPAN;
        let (from, to) = (x(bar.start), x(bar.end));
        // A pixel at least, and within the field.
        let wide = (to - from).max(1.0);
        let from = from.min(LEFT + SPAN - wide);
        let paint = match bar.void {
            true => "class=\"void\"".to_owned(),
            false => {
                let colour = COLOURS[usize::from(bar.priority)];
                // The opacity of a merged bar is the share in which its tenant ran.
                let share = bar.busy as f64 / (bar.end - bar.start).max(1) as f64;
                match bar.slices {
                    1 => format!("fill=\"{colour}\""),
                    _ => format!(
                        "fill=\"{colour}\" fill-opacity=\"{:.2}\"",
                        0.35 + 0.65 * share
                    ),
                }
            }
        };
        let (first, last) = bar.positions;
        let which = match bar.slices {
            1 => format!("position {first}"),
            slices => format!("{slices} slices, positions {first} to {last}"),
        };
        let what = match bar.void {
            true => "nothing ran".to_owned(),
            false => format!("{} kernels, {}", bar.kernels, time(bar.busy)),
        };
        let tenant = escaped(tenant);
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.2}\" y=\"{y}\" width=\"{wide:.2}\" height=\"{THICK}\" {paint}>\
             <title>{tenant}, {which}: {what}, priority {}</title></rect>",
            bar.priority
        );
    }
}

/// Round numbers from 0 to the end, about eight.
fn ticks(end: f64) -> Vec<f64> {
    let rough = end / 8.0;
    let unit = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * unit);
    let step = steps
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(unit);
    let count = (end / step + 1e-9).floor() as u32;
    (0..=count).map(|tick| f64::from(tick) * step).collect()
}

fn text(svg: &mut String, (x, y): (f64, f64), how: &str, words: &str) {
    let words = escaped(words);
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {how}>{words}</text>");
}

fn escaped(words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('"', "&quot;");
    words.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::record::PositionRow;

    fn rows(count: u64) -> Vec<PositionRow> {
        (1..=count)
            .map(|at| PositionRow {
                gpu: (at % 2) as u32,
                incarnation: (at % 2).to_string(),
                position: at.div_ceil(2),
                global: at,
                tenant: ["chat", "search", "train"][(at % 3) as usize].into(),
                kind: "run".into(),
                priority: [0, 2, 4][(at % 3) as usize],
                kernels: Some(1),
                outcome: Some(if at % 97 == 0 { "void" } else { "ran" }.into()),
                measured_ns: Some(5_000 + at * 37 % 40_000),
                ..PositionRow::default()
            })
            .collect()
    }

    /// The values of an attribute of all rects that have a title.
    fn of_bars(svg: &str, name: &str) -> Vec<f64> {
        let key = format!(" {name}=\"");
        svg.lines()
            .filter(|line| line.contains("<title>") && line.starts_with("<rect"))
            .map(|line| {
                let from = line.find(&key).expect("the attribute") + key.len();
                let value = line[from..].split('"').next().expect("a value");
                value.parse().expect("a number")
            })
            .collect()
    }

    #[test]
    fn every_bar_lies_within_the_field_and_can_be_seen() {
        for count in [1, 3, 40, 5_000] {
            let timeline = Timeline::new(&rows(count));
            let svg = timeline.svg();
            let (x, wide) = (of_bars(&svg, "x"), of_bars(&svg, "width"));
            assert_eq!(x.len(), timeline.bars());
            for (x, wide) in x.iter().zip(&wide) {
                assert!(*wide >= 1.0 && *x >= LEFT - 0.01, "{x} {wide}");
                assert!(x + wide <= LEFT + SPAN + 0.02, "{x} {wide}");
            }
            let lowest = of_bars(&svg, "y").into_iter().fold(0.0, f64::max);
            let devices = timeline.devices.iter();
            let lanes: usize = devices.map(|device| device.lanes.len()).sum();
            let field = TOP + NAME * timeline.devices.len() as f64 + LANE * lanes as f64;
            assert!(
                lowest + THICK <= field && svg.len() < 1 << 20,
                "{}",
                svg.len()
            );
        }
    }

    #[test]
    fn it_says_what_is_seen() {
        let svg = Timeline::new(&rows(400)).svg();
        for part in [
            "global positions 1 to 400",
            "priority 0",
            "priority 4",
            "void:",
            "device time, us",
            ">gpu 1<",
            ">search<",
            "prefers-color-scheme: dark",
            "kernels, ",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("priority 1<") && !svg.contains("NaN"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let svg = Timeline::new(&[]).svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(8.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        for end in [0.001, 1.0, 37.0, 123_456.0] {
            let ticks = ticks(end);
            assert!((4..=11).contains(&ticks.len()), "{end}: {ticks:?}");
            assert!(ticks.iter().all(|tick| *tick <= end * 1.000_001));
        }
    }
}
