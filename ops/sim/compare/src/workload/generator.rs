//! Models like those measured in the literature. They are made from a seed so that count, total, median,
//! 99th percentile and maximum of the kernels' durations are the published ones.
//!
//! The figures are of PyTorch models on a V100, from the kernel traces published with Orion (Strati, Ma,
//! Klimovic: Interference-aware, fine-grained GPU sharing for ML applications, EuroSys 2024). Of the LLM
//! only the number of kernels and their range are known. Values that are not published are ours;
//! [`Published`] marks them.

use super::{Arrivals, Kernel, Model, TenantRole};
use sim_cluster::Random;

/// Published values of a model's kernels; a value of `None` is not published, and was chosen by us.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Sum of the durations, microseconds.
    pub total_us: Option<f64>,
    /// Median, microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile, microseconds.
    pub p99_us: Option<f64>,
    /// Longest, microseconds.
    pub max_us: Option<f64>,
}

/// The shape from which a model is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// The model's name.
    pub name: &'static str,
    /// Its role.
    pub role: TenantRole,
    /// Kernels of one request.
    pub kernels: usize,
    /// Sum of the durations, microseconds.
    pub total_us: f64,
    /// Shortest, median, 99th percentile and longest, microseconds.
    pub quantiles_us: [f64; 4],
    /// Percentage of the kernels that are bound by memory rather than by arithmetic.
    pub memory_bound: u8,
    /// The published part of these values.
    pub published: Published,
}

const fn published(
    total_us: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    max_us: Option<f64>,
) -> Published {
    Published {
        total_us: Some(total_us),
        p50_us,
        p99_us,
        max_us,
    }
}

/// All shapes.
pub const SHAPES: [Shape; 7] = [
    Shape {
        name: "resnet50-inference",
        role: TenantRole::Latency,
        kernels: 175,
        total_us: 6_500.0,
        quantiles_us: [3.0, 12.5, 240.0, 380.0],
        memory_bound: 55,
        published: published(6_500.0, Some(12.5), None, Some(380.0)),
    },
    Shape {
        name: "mobilenetv2-inference",
        role: TenantRole::Latency,
        kernels: 152,
        total_us: 2_300.0,
        quantiles_us: [3.0, 9.0, 70.0, 110.0],
        memory_bound: 65,
        published: published(2_300.0, None, None, None),
    },
    Shape {
        name: "bert-inference",
        role: TenantRole::Latency,
        kernels: 572,
        total_us: 48_600.0,
        quantiles_us: [4.0, 40.0, 420.0, 600.0],
        memory_bound: 45,
        published: published(48_600.0, None, None, None),
    },
    Shape {
        name: "llm-decode",
        role: TenantRole::Latency,
        kernels: 300,
        total_us: 3_600.0,
        quantiles_us: [5.0, 11.5, 19.5, 20.0],
        memory_bound: 90,
        published: Published {
            total_us: None,
            p50_us: None,
            p99_us: None,
            max_us: Some(20.0),
        },
    },
    Shape {
        name: "resnet50-training",
        role: TenantRole::Throughput,
        kernels: 946,
        total_us: 95_000.0,
        quantiles_us: [3.0, 45.0, 819.0, 1_240.0],
        memory_bound: 60,
        published: published(95_000.0, None, Some(819.0), Some(1_240.0)),
    },
    Shape {
        name: "bert-training",
        role: TenantRole::Throughput,
        kernels: 4_777,
        total_us: 191_000.0,
        quantiles_us: [3.0, 12.0, 400.0, 900.0],
        memory_bound: 50,
        published: published(191_000.0, None, None, None),
    },
    Shape {
        name: "transformer-xl-training",
        role: TenantRole::Throughput,
        kernels: 4_354,
        total_us: 125_000.0,
        quantiles_us: [3.0, 11.0, 250.0, 600.0],
        memory_bound: 55,
        published: published(125_000.0, None, None, None),
    },
];

/// Makes the model of a shape.
#[must_use]
pub fn generate(shape: &Shape, seed: u64) -> Model {
    let mut random = Random::of(seed, shape.kernels as u64);
    let mut durations = durations(shape);
    random.shuffle(&mut durations);
    let kernels = durations.into_iter().map(|ns| {
        let bound = 60 + random.index(36) as u8;
        let other = 10 + random.index(31) as u8;
        // A short kernel does not fill the device.
        let part = |percent: u8| match ns {
            0..=10_000 => percent / 2,
            _ => percent,
        };
        let memory_bound = random.index(100) < usize::from(shape.memory_bound);
        let (compute, memory) = if memory_bound {
            (other, bound)
        } else {
            (bound, other)
        };
        Kernel {
            ns,
            compute: part(compute),
            memory: part(memory),
        }
    });
    Model {
        name: shape.name.to_owned(),
        role: shape.role,
        arrivals: match shape.role {
            TenantRole::Latency => Arrivals::Load(0.5),
            TenantRole::Throughput => Arrivals::Closed {
                think: 0,
                random: false,
            },
        },
        kernels: kernels.collect(),
    }
}

/// The durations in rising order, nanoseconds.
///
/// Between the quantiles they rise exponentially, bent by one exponent, which is searched for so that they
/// add up. Rounding errors are added to those in the middle of the upper half.
fn durations(shape: &Shape) -> Vec<u64> {
    let target = shape.total_us * 1e3;
    let sum = |bend: f64| curve(shape, bend).iter().sum::<f64>();
    // A greater bend makes all but the quantiles shorter.
    let (mut low, mut high) = (0.02, 50.0);
    for _ in 0..100 {
        let bend = f64::midpoint(low, high);
        if sum(bend) > target {
            low = bend;
        } else {
            high = bend;
        }
    }
    let curve = curve(shape, f64::midpoint(low, high));
    curve.into_iter().map(|ns| ns.round() as u64).collect()
}

fn curve(shape: &Shape, bend: f64) -> Vec<f64> {
    let last = (shape.kernels - 1) as f64;
    let [shortest, median, high, longest] = shape.quantiles_us.map(|us| us * 1e3);
    let points = [(0.0, shortest), (0.5, median), (0.99, high), (1.0, longest)];
    // The sample of the 99th percentile has exactly that rank.
    let points = points.map(|(part, ns)| ((part * last).round(), ns));
    let at = |rank: f64| {
        let segment = points.iter().rposition(|(from, _)| *from <= rank);
        let segment = segment.unwrap_or(0).min(points.len() - 2);
        let ((from, low), (to, top)) = (points[segment], points[segment + 1]);
        let part = ((rank - from) / (to - from).max(1.0)).clamp(0.0, 1.0);
        low * (top / low).powf(part.powf(bend))
    };
    (0..shape.kernels).map(|rank| at(rank as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value at this quantile by the nearest rank, as in the published figures.
    fn quantile(sorted: &[u64], part: f64) -> f64 {
        sorted[((sorted.len() - 1) as f64 * part).round() as usize] as f64 / 1e3
    }

    fn near(what: &str, value: f64, wanted: Option<f64>, tolerance: f64) {
        if let Some(wanted) = wanted {
            let off = (value - wanted).abs() / wanted;
            assert!(off <= tolerance, "{what}: {value} for {wanted}");
        }
    }

    #[test]
    fn every_model_has_its_published_figures() {
        let counts = SHAPES.map(|shape| (shape.name, shape.kernels));
        assert!(counts.contains(&("resnet50-inference", 175)));
        for (shape, seed) in SHAPES.iter().flat_map(|shape| [(shape, 1), (shape, 99)]) {
            let model = generate(shape, seed);
            let mut sorted: Vec<u64> = model.kernels.iter().map(|kernel| kernel.ns).collect();
            sorted.sort_unstable();
            assert_eq!(sorted.len(), shape.kernels);
            let published = shape.published;
            let total = model.total() as f64 / 1e3;
            near(shape.name, total, Some(shape.total_us), 0.001);
            near(shape.name, total, published.total_us, 0.001);
            near(shape.name, quantile(&sorted, 0.5), published.p50_us, 0.001);
            near(shape.name, quantile(&sorted, 0.99), published.p99_us, 0.001);
            near(shape.name, quantile(&sorted, 1.0), published.max_us, 0.001);
            assert!(sorted[0] >= 3_000);
        }
    }

    #[test]
    fn an_llm_decodes_with_short_kernels() {
        let shape = SHAPES.iter().find(|shape| shape.name == "llm-decode");
        let model = generate(shape.unwrap(), 3);
        assert!(
            model
                .kernels
                .iter()
                .all(|k| (5_000..=20_000).contains(&k.ns))
        );
        assert_eq!(model.kernels.len(), 300);
    }

    #[test]
    fn a_seed_is_a_model() {
        let shape = &SHAPES[0];
        assert_eq!(generate(shape, 5), generate(shape, 5));
        assert_ne!(generate(shape, 5).kernels, generate(shape, 6).kernels);
    }
}
