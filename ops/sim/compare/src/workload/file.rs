//! Models in files: one TOML file per model, as `docs/internals/simulation.md` describes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Arrivals, Kernel, Model, TenantRole};
use sim_cluster::Nanos;

/// Reason why a folder of models cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file system returned an error.
    #[error("{path}: {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// The file is not TOML, or not of the format.
    #[error("{path}: {error}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The error, with its place.
        error: Box<toml::de::Error>,
    },
    /// The file has an impossible value.
    #[error("{path}: {why}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    role: TextRole,
    arrivals: TextArrivals,
    /// Nanoseconds, percent of arithmetic, percent of bandwidth.
    kernels: Vec<(u64, u8, u8)>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TextRole {
    Latency,
    Throughput,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum TextArrivals {
    Poisson {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        load: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<f64>,
    },
    Closed {
        #[serde(default)]
        think_us: f64,
        #[serde(default)]
        random: bool,
    },
    Trace {
        times_us: Vec<f64>,
    },
}

/// Reads every `.toml` file of a folder, in order of their names.
///
/// # Errors
/// [`FileError`] for the first file that is not a model, or if there is no file.
pub fn read_dir(dir: &Path) -> Result<Vec<Model>, FileError> {
    let io = |error| FileError::Io {
        path: dir.to_owned(),
        error,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            paths.push(path);
        }
    }
    paths.sort();
    let models: Vec<Model> = paths
        .iter()
        .map(|path| read(path))
        .collect::<Result<_, _>>()?;
    let why = match models.iter().enumerate().find(|(index, model)| {
        let before = &models[..*index];
        before.iter().any(|other| other.name == model.name)
    }) {
        Some((_, model)) => format!("two models have the name `{}`", model.name),
        None if models.is_empty() => "there is no .toml file in it".to_owned(),
        None => return Ok(models),
    };
    let path = dir.to_owned();
    Err(FileError::Content { path, why })
}

fn read(path: &Path) -> Result<Model, FileError> {
    let text = std::fs::read_to_string(path).map_err(|error| FileError::Io {
        path: path.to_owned(),
        error,
    })?;
    let text: Text = toml::from_str(&text).map_err(|error| FileError::Format {
        path: path.to_owned(),
        error: Box::new(error),
    })?;
    model(text).map_err(|why| FileError::Content {
        path: path.to_owned(),
        why,
    })
}

fn model(text: Text) -> Result<Model, String> {
    if text.kernels.is_empty() || text.kernels.len() > 1 << 20 {
        return Err("a request has 1 to 1,048,576 kernels".to_owned());
    }
    let mut kernels = Vec::with_capacity(text.kernels.len());
    for (index, (ns, compute, memory)) in text.kernels.into_iter().enumerate() {
        if ns == 0 || ns > 60_000_000_000 || compute > 100 || memory > 100 {
            return Err(format!(
                "kernel {index}: [nanoseconds from 1 to 60e9, percent, percent]"
            ));
        }
        kernels.push(Kernel {
            ns,
            compute,
            memory,
        });
    }
    Ok(Model {
        name: text.name,
        role: match text.role {
            TextRole::Latency => TenantRole::Latency,
            TextRole::Throughput => TenantRole::Throughput,
        },
        arrivals: arrivals(text.arrivals)?,
        kernels: kernels.into(),
    })
}

fn arrivals(text: TextArrivals) -> Result<Arrivals, String> {
    let sane = |value: f64| value.is_finite() && value >= 0.0;
    match text {
        TextArrivals::Poisson {
            load: Some(load),
            rate: None,
        } if load > 0.0 && load < 1.0 => Ok(Arrivals::Load(load)),
        TextArrivals::Poisson {
            load: None,
            rate: Some(rate),
        } if sane(rate) && rate > 0.0 => Ok(Arrivals::Rate(rate)),
        TextArrivals::Poisson { .. } => {
            Err("poisson arrivals have a load between 0 and 1, or a rate (per second)".to_owned())
        }
        TextArrivals::Closed { think_us, random } if sane(think_us) => Ok(Arrivals::Closed {
            think: nanos(think_us),
            random,
        }),
        TextArrivals::Closed { .. } => Err("think_us is not negative".to_owned()),
        TextArrivals::Trace { times_us } => {
            let rises = times_us.is_sorted() && times_us.iter().all(|time| sane(*time));
            if !rises || times_us.last().is_none_or(|last| *last <= 0.0) {
                return Err("a trace's times rise, from 0 or later".to_owned());
            }
            let times: Arc<[Nanos]> = times_us.into_iter().map(nanos).collect();
            Ok(Arrivals::Trace(times))
        }
    }
}

fn nanos(us: f64) -> Nanos {
    (us * 1e3).round() as Nanos
}

/// Writes each model to `<name>.toml` in a folder, which is created if missing. Returns the files' paths.
///
/// # Errors
/// [`FileError`] for the first file that could not be written.
pub fn write_dir(dir: &Path, models: &[Model]) -> Result<Vec<PathBuf>, FileError> {
    let io = |path: &Path, error| FileError::Io {
        path: path.to_owned(),
        error,
    };
    std::fs::create_dir_all(dir).map_err(|error| io(dir, error))?;
    let mut written = Vec::new();
    for model in models {
        let path = dir.join(format!("{}.toml", model.name));
        std::fs::write(&path, text(model)).map_err(|error| io(&path, error))?;
        written.push(path);
    }
    Ok(written)
}

/// Formats a model as its file's text, one kernel per line.
fn text(model: &Model) -> String {
    use std::fmt::Write;
    let role = match model.role {
        TenantRole::Latency => "latency",
        TenantRole::Throughput => "throughput",
    };
    let arrivals = match &model.arrivals {
        Arrivals::Load(load) => format!("{{ kind = \"poisson\", load = {load:?} }}"),
        Arrivals::Rate(rate) => format!("{{ kind = \"poisson\", rate = {rate:?} }}"),
        Arrivals::Closed { think, random } => {
            let think = *think as f64 / 1e3;
            format!("{{ kind = \"closed\", think_us = {think:?}, random = {random} }}")
        }
        Arrivals::Trace(times) => {
            let times: Vec<f64> = times.iter().map(|time| *time as f64 / 1e3).collect();
            format!("{{ kind = \"trace\", times_us = {times:?} }}")
        }
    };
    let name = toml::Value::String(model.name.clone());
    let mut text = format!(
        "name = {name}\nrole = \"{role}\"\narrivals = {arrivals}\n\
         # [nanoseconds, percent of arithmetic, percent of bandwidth]\nkernels = [\n"
    );
    for kernel in &*model.kernels {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  [{}, {}, {}],",
            kernel.ns, kernel.compute, kernel.memory
        );
    }
    text.push_str("]\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{SHAPES, generate};

    #[test]
    fn what_is_written_is_read_back() {
        let mut models: Vec<Model> = SHAPES.iter().map(|shape| generate(shape, 4)).collect();
        models[0].arrivals = Arrivals::Rate(12.5);
        models[1].arrivals = Arrivals::Trace([1_000, 2_500, 9_000].into());
        models[2].arrivals = Arrivals::Closed {
            think: 1_500,
            random: true,
        };
        for model in &models {
            let text: Text = toml::from_str(&text(model)).unwrap();
            assert_eq!(super::model(text).as_ref(), Ok(model));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let file = |arrivals: &str, kernels: &str| {
            let text = format!(
                "name = \"x\"\nrole = \"latency\"\narrivals = {arrivals}\nkernels = {kernels}"
            );
            toml::from_str::<Text>(&text)
                .map_err(|error| error.to_string())
                .and_then(model)
        };
        let closed = "{ kind = \"closed\" }";
        assert!(file(closed, "[[1000, 50, 50]]").is_ok());
        for kernels in ["[]", "[[0, 1, 1]]", "[[5, 101, 1]]", "[[5, 1]]"] {
            assert!(file(closed, kernels).is_err(), "{kernels}");
        }
        for arrivals in [
            "{ kind = \"poisson\" }",
            "{ kind = \"poisson\", load = 1.5 }",
            "{ kind = \"poisson\", load = 0.5, rate = 3.0 }",
            "{ kind = \"closed\", think_us = -1.0 }",
            "{ kind = \"trace\", times_us = [3.0, 1.0] }",
            "{ kind = \"trace\", times_us = [] }",
            "{ kind = \"moon\" }",
        ] {
            assert!(file(arrivals, "[[1000, 50, 50]]").is_err(), "{arrivals}");
        }
    }
}
