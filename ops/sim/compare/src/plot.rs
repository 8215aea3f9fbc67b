//! Plots as SVG, written by hand: axes, lines, points, a legend.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 56.0;
/// Colours that people with colour blindness can distinguish.
const COLOURS: [&str; 8] = [
    "#0072b2", "#000000", "#e69f00", "#cc79a7", "#56b4e9", "#009e73", "#d55e00", "#999999",
];

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equal differences.
    Linear,
    /// Equal steps are equal factors.
    Logarithmic,
}

/// Mark of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line through its points.
    Line,
    /// A dot at each point.
    Dots,
}

/// A series of points.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Its mark.
    pub mark: Mark,
}

/// A plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Text above the plot.
    pub title: String,
    /// Label below the plot.
    pub x_label: String,
    /// Label left of the plot.
    pub y_label: String,
    /// Scale of the horizontal axis.
    pub x_scale: Scale,
    /// Series of the plot; each has the colour of its index.
    pub series: Vec<Series>,
}

/// One axis: its range of values, and its pixels.
struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, scale: Scale, from: f64, to: f64) -> Self {
        let sane = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (mut low, mut high) = values
            .filter(sane)
            .fold((f64::MAX, f64::MIN), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = (1.0, 2.0);
        }
        match scale {
            Scale::Logarithmic => {
                low = 10f64.powf(low.log10().floor());
                high = 10f64.powf(high.log10().ceil()).max(low * 10.0);
            }
            Scale::Linear => {
                let room = ((high - low) * 0.08).max(high.abs() * 0.02).max(1e-3);
                (low, high) = ((low - room).max(low.min(0.0)), high + room);
            }
        }
        Self {
            low,
            high,
            scale,
            from,
            to,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => {
                let value = value.max(self.low);
                (value / self.low).log10() / (self.high / self.low).log10()
            }
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.scale == Scale::Logarithmic {
            let count = (self.high / self.low).log10().round() as i32;
            return (0..=count)
                .map(|tick| self.low * 10f64.powi(tick))
                .collect();
        }
        let rough = (self.high - self.low) / 6.0;
        let unit = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * unit);
        let step = step.into_iter().find(|step| *step >= rough).unwrap_or(unit);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

impl Plot {
    /// Formats the plot as an SVG document.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let xs = points().map(|(x, _)| *x);
        let ys = points().map(|(_, y)| *y);
        let x = Axis::new(xs, self.x_scale, LEFT, WIDTH - RIGHT);
        let y = Axis::new(ys, Scale::Linear, HEIGHT - BOTTOM, TOP);
        let mut svg = String::new();
        // Writing to a string does not fail, here and below.
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
        );
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        text(&mut svg, (middle, 22.0), "middle", &self.title);
        text(&mut svg, (middle, HEIGHT - 14.0), "middle", &self.x_label);
        let centre = f64::midpoint(TOP, HEIGHT - BOTTOM);
        let _ = writeln!(
            svg,
            "<text x=\"16\" y=\"{centre}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 16 {centre})\">{}</text>",
            escaped(&self.y_label)
        );
        grid(&mut svg, &x, &y);
        for (index, series) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            draw(&mut svg, series, colour, &x, &y);
            let line = TOP + 10.0 + 20.0 * index as f64;
            let edge = WIDTH - RIGHT + 14.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{edge}\" y=\"{:.1}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>",
                line - 6.0
            );
            text(&mut svg, (edge + 20.0, line), "start", &series.name);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn grid(svg: &mut String, x: &Axis, y: &Axis) {
    for tick in x.ticks() {
        let at = x.at(tick);
        line(svg, (at, TOP), (at, HEIGHT - BOTTOM));
        text(svg, (at, HEIGHT - BOTTOM + 16.0), "middle", &number(tick));
    }
    for tick in y.ticks() {
        let at = y.at(tick);
        line(svg, (LEFT, at), (WIDTH - RIGHT, at));
        text(svg, (LEFT - 6.0, at + 4.0), "end", &number(tick));
    }
}

fn draw(svg: &mut String, series: &Series, colour: &str, x: &Axis, y: &Axis) {
    let places = series
        .points
        .iter()
        .map(|point| (x.at(point.0), y.at(point.1)));
    match series.mark {
        Mark::Line => {
            let points: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" points=\"{}\"/>",
                points.join(" ")
            );
        }
        Mark::Dots => {
            for (x, y) in places {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\" \
                     fill-opacity=\"0.75\"/>"
                );
            }
        }
    }
}

fn line(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#dddddd\"/>"
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let words = escaped(words);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

fn escaped(words: &str) -> String {
    let words = words.replace('&', "&amp;");
    words
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>, x_scale: Scale) -> String {
        Plot {
            title: "a < b & c".into(),
            x_label: "ms".into(),
            y_label: "part".into(),
            x_scale,
            series: vec![Series {
                name: "one".into(),
                points,
                mark: Mark::Line,
            }],
        }
        .svg()
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let svg = plot(
            vec![(1.0, 0.0), (10.0, 0.5), (100.0, 1.0)],
            Scale::Logarithmic,
        );
        // The edges of the field's three decades: left, middle and right.
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        assert!(svg.contains(&format!("points=\"{LEFT:.1},")), "{svg}");
        assert!(svg.contains(&format!(" {middle:.1},")), "{svg}");
        assert!(svg.contains(&format!(" {:.1},", WIDTH - RIGHT)), "{svg}");
        assert!(svg.contains("a &lt; b &amp; c"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        for points in [vec![], vec![(0.0, 0.0)], vec![(5.0, 5.0), (5.0, 5.0)]] {
            for scale in [Scale::Linear, Scale::Logarithmic] {
                let svg = plot(points.clone(), scale);
                assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
            }
        }
    }
}
