//! A chart of rates over the number of workers, both logarithmic, as SVG.

use crate::experiments::{SCALING_MIN, Series, WORKERS};

/// Size of the drawing, in its own units.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 560.0;
/// Edges of the area of the curves. The labels are on its right.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 500.0;

/// Minimum distance of the baselines of two labels.
const LABEL_HEIGHT: f64 = 18.0;
/// Distance of a baseline from the middle of its text.
const BASELINE: f64 = 4.0;

/// Colours of the curves, in their order. The last one repeats that of the workload that is drawn
/// twice.
const COLOURS: [&str; 9] = [
    "#0b5fa5", "#b3261e", "#2e7d32", "#8e44ad", "#c77800", "#00838f", "#6d4c41", "#c2185b",
    "#c77800",
];

/// One workload.
pub(crate) struct Curve {
    name: String,
    rates: [f64; WORKERS.len()],
    saturation: Option<usize>,
    is_dashed: bool,
}

impl Curve {
    pub(crate) fn new(name: String, series: &Series, is_dashed: bool) -> Curve {
        let mut rates = [0.0; WORKERS.len()];
        for (rate, outcome) in rates.iter_mut().zip(&series.outcomes) {
            *rate = outcome.rate.max(1.0);
        }
        Curve {
            name,
            rates,
            saturation: series.saturation(),
            is_dashed,
        }
    }

    /// Returns the rate with the most workers.
    fn last(&self) -> f64 {
        self.rates[WORKERS.len() - 1]
    }
}

/// The vertical axis: the exponents of the powers of ten that enclose all curves.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn new(curves: &[Curve]) -> Scale {
        let rates = || curves.iter().flat_map(|curve| curve.rates);
        Scale {
            low: rates().fold(f64::MAX, f64::min).log10().floor(),
            high: rates().fold(1.0, f64::max).log10().ceil(),
        }
    }

    fn y(&self, rate: f64) -> f64 {
        BOTTOM - (rate.log10() - self.low) / (self.high - self.low) * (BOTTOM - TOP)
    }
}

fn x(workers: usize) -> f64 {
    let (first, last) = (WORKERS[0] as f64, WORKERS[WORKERS.len() - 1] as f64);
    LEFT + (workers as f64 / first).log2() / (last / first).log2() * (RIGHT - LEFT)
}

/// Draws the curves. A ring marks where each saturates.
pub(crate) fn draw(curves: &[Curve]) -> String {
    let scale = Scale::new(curves);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>Operations per second of the modelled machine by its number of workers</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    svg += &axes(&scale);
    for (curve, colour) in curves.iter().zip(COLOURS) {
        svg += &line(curve, colour, &scale);
    }
    svg += &labels(curves, &scale);
    svg += "</svg>\n";
    svg
}

fn axes(scale: &Scale) -> String {
    let mut svg = String::new();
    for exponent in scale.low as i32..=scale.high as i32 {
        let y = scale.y(10_f64.powi(exponent));
        let name = name_of_power(exponent);
        svg += &format!(
            "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\n",
            LEFT - 8.0,
            y + BASELINE
        );
    }
    for workers in WORKERS {
        let x = x(workers);
        svg += &format!(
            "<path d=\"M{x:.1} {TOP}V{BOTTOM}\" stroke=\"#eee\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{workers}</text>\n",
            BOTTOM + 20.0
        );
    }
    svg += &format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">workers, each on a core</text>\n\
         <text x=\"{LEFT}\" y=\"{}\">operations per second of the whole machine; a ring marks where twice the workers gain less than {:.0} %</text>\n",
        f64::midpoint(LEFT, RIGHT),
        BOTTOM + 44.0,
        TOP - 16.0,
        (SCALING_MIN - 1.0) * 100.0
    );
    svg
}

/// Names a power of ten: 1, 10, 100, 1 k, 10 k, and so on. Rates of less than 1 are drawn as 1.
fn name_of_power(exponent: i32) -> String {
    let exponent = exponent.max(0).cast_unsigned();
    let (unit_exponent, unit) = match exponent {
        0..3 => (0, ""),
        3..6 => (3, " k"),
        6..9 => (6, " M"),
        9.. => (9, " G"),
    };
    format!("{}{unit}", 10_u64.pow(exponent - unit_exponent))
}

fn line(curve: &Curve, colour: &str, scale: &Scale) -> String {
    let points = WORKERS.iter().zip(curve.rates);
    let points: Vec<String> = points
        .map(|(workers, rate)| format!("{:.1},{:.1}", x(*workers), scale.y(rate)))
        .collect();
    let dashes = if curve.is_dashed {
        " stroke-dasharray=\"6 4\""
    } else {
        ""
    };
    let mut svg = format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>\n",
        points.join(" ")
    );
    if let Some(index) = curve.saturation {
        svg += &format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"6\" fill=\"#fff\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
            x(WORKERS[index]),
            scale.y(curve.rates[index])
        );
    }
    svg
}

/// Labels the ends of the curves, moved apart where they are close.
fn labels(curves: &[Curve], scale: &Scale) -> String {
    let mut labelled: Vec<(&Curve, &str)> = curves.iter().zip(COLOURS).collect();
    labelled.sort_by(|(one, _), (other, _)| other.last().total_cmp(&one.last()));
    let mut svg = String::new();
    let mut free = TOP;
    for (curve, colour) in labelled {
        let end = scale.y(curve.last());
        let y = end.max(free);
        free = y + LABEL_HEIGHT;
        svg += &format!(
            "<path d=\"M{RIGHT} {end:.1}L{} {y:.1}\" stroke=\"{colour}\" fill=\"none\"/><text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>\n",
            RIGHT + 22.0,
            RIGHT + 26.0,
            y + BASELINE,
            curve.name
        );
    }
    svg
}
