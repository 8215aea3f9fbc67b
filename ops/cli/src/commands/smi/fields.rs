//! Fields of devices and processes that can be queried by name, and the lines that print them.

use admin::calendar::{moment, now_ms};
use admin::completion::Candidate;
use admin::csv;
use admin::errors::UsageError;
use nvml::{ProcessState, driver_text, percent};

use super::view::Shown;

/// A field's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    /// Bytes, shown in MiB.
    Bytes(u64),
    Percent(u32),
    Megahertz(u32),
    /// The device has no such thing, or it is not measured.
    Missing,
}

use Value::{Bytes, Megahertz, Missing, Percent, Text};

/// The text for [`Value::Missing`].
pub(super) const NONE: &str = "[N/A]";

impl Value {
    /// The unit of the number, as in the header.
    fn unit(&self) -> Option<&'static str> {
        match self {
            Bytes(_) => Some("MiB"),
            Percent(_) => Some("%"),
            Megahertz(_) => Some("MHz"),
            Text(_) | Missing => None,
        }
    }

    /// The value without its unit.
    pub(super) fn bare(&self) -> String {
        match self {
            Text(text) => text.clone(),
            Bytes(bytes) => (bytes >> 20).to_string(),
            Percent(number) | Megahertz(number) => number.to_string(),
            Missing => NONE.into(),
        }
    }

    /// The value with its unit.
    pub(super) fn full(&self) -> String {
        match self.unit() {
            Some(unit) => format!("{} {unit}", self.bare()),
            None => self.bare(),
        }
    }
}

/// A field: its names, the unit of its column, its value.
struct Field<F> {
    names: &'static [&'static str],
    unit: Option<&'static str>,
    of: F,
}

/// Reads a field of a device; the number is the count of all devices.
type OfDevice = fn(&Shown, usize) -> Value;
/// Reads a field of a process on this device.
type OfProcess = fn(&Shown, &ProcessState) -> Value;

const fn field<F: Copy>(
    names: &'static [&'static str],
    unit: Option<&'static str>,
    of: F,
) -> Field<F> {
    Field { names, unit, of }
}

const MIB: Option<&str> = Some("MiB");
const SHARE: Option<&str> = Some("%");
const MHZ: Option<&str> = Some("MHz");

/// A clock rate; 0 means that the device has none.
pub(super) fn clock(khz: u32) -> Value {
    match khz / 1_000 {
        0 => Missing,
        mhz => Megahertz(mhz),
    }
}

pub(super) fn total(shown: &Shown) -> Value {
    Bytes(shown.device.total())
}

pub(super) fn used(shown: &Shown) -> Value {
    shown.device.share.map_or(Missing, |it| Bytes(it.held))
}

pub(super) fn free(shown: &Shown) -> Value {
    shown.device.share.map_or(Missing, |it| Bytes(it.free))
}

/// Memory that is neither held by the tenant nor free to it.
pub(super) fn reserved(shown: &Shown) -> Value {
    let left = |it: nvml::DeviceShare| it.total.saturating_sub(it.held.saturating_add(it.free));
    shown.device.share.map_or(Missing, |it| Bytes(left(it)))
}

pub(super) fn busy(shown: &Shown) -> Value {
    let share = shown.device.share;
    share.map_or(Missing, |it| Percent(percent(it.busy_ppm)))
}

/// The PCI bus id with a domain of eight digits.
pub(super) fn place(shown: &Shown) -> String {
    format!("0000{}", shown.device.bus_id())
}

static DEVICE: &[Field<OfDevice>] = &[
    field(&["timestamp"], None, |_, _| Text(moment(now_ms()))),
    field(&["driver_version"], None, |_, _| Text(driver_text().into())),
    field(&["count"], None, |_, count| Text(count.to_string())),
    field(&["name", "gpu_name"], None, |it, _| {
        Text(it.device.properties.name.clone())
    }),
    field(&["index"], None, |it, _| Text(it.index.to_string())),
    field(&["uuid", "gpu_uuid"], None, |it, _| Text(it.device.uuid())),
    field(&["pci.bus_id", "gpu_bus_id"], None, |it, _| Text(place(it))),
    field(&["pci.domain"], None, |_, _| Text("0x0000".into())),
    field(&["pci.bus"], None, |it, _| {
        Text(format!("0x{:02X}", it.device.gpu & 0xff))
    }),
    field(&["pci.device"], None, |_, _| Text("0x00".into())),
    field(&["compute_cap"], None, |it, _| {
        let (major, minor) = it.device.properties.compute;
        Text(format!("{major}.{minor}"))
    }),
    field(&["compute_mode"], None, |_, _| Text("Default".into())),
    field(&["persistence_mode"], None, |_, _| Text("Enabled".into())),
    field(&["display_mode", "display_active"], None, |_, _| {
        Text("Disabled".into())
    }),
    field(&["memory.total"], MIB, |it, _| total(it)),
    field(&["memory.reserved"], MIB, |it, _| reserved(it)),
    field(&["memory.used"], MIB, |it, _| used(it)),
    field(&["memory.free"], MIB, |it, _| free(it)),
    field(&["utilization.gpu"], SHARE, |it, _| busy(it)),
    field(
        &["clocks.max.sm", "clocks.max.graphics", "clocks.max.gr"],
        MHZ,
        |it, _| clock(it.device.properties.clock_khz),
    ),
    field(&["clocks.max.memory", "clocks.max.mem"], MHZ, |it, _| {
        clock(it.device.properties.memory_clock_khz)
    }),
    field(
        &[
            "utilization.memory",
            "utilization.encoder",
            "utilization.decoder",
        ],
        SHARE,
        |_, _| Missing,
    ),
    field(
        &[
            "clocks.sm",
            "clocks.gr",
            "clocks.mem",
            "clocks.current.sm",
            "clocks.current.graphics",
            "clocks.current.memory",
        ],
        MHZ,
        |_, _| Missing,
    ),
    field(
        &[
            "power.draw",
            "power.draw.average",
            "power.draw.instant",
            "power.limit",
            "enforced.power.limit",
        ],
        Some("W"),
        |_, _| Missing,
    ),
    field(&["fan.speed"], SHARE, |_, _| Missing),
    field(
        &[
            "serial",
            "gpu_serial",
            "vbios_version",
            "pstate",
            "temperature.gpu",
            "temperature.memory",
            "mig.mode.current",
            "mig.mode.pending",
            "ecc.mode.current",
            "ecc.mode.pending",
            "ecc.errors.uncorrected.volatile.total",
            "accounting.mode",
            "pcie.link.gen.current",
            "pcie.link.gen.max",
            "pcie.link.width.current",
            "pcie.link.width.max",
        ],
        None,
        |_, _| Missing,
    ),
];

static PROCESS: &[Field<OfProcess>] = &[
    field(&["timestamp"], None, |_, _| Text(moment(now_ms()))),
    field(&["pid"], None, |_, it| Text(it.pid.to_string())),
    field(&["process_name", "name"], None, |_, it| {
        Text(it.name.clone())
    }),
    field(&["used_memory", "used_gpu_memory"], MIB, |_, it| {
        Bytes(it.held)
    }),
    field(&["gpu_name"], None, |on, _| {
        Text(on.device.properties.name.clone())
    }),
    field(&["gpu_uuid"], None, |on, _| Text(on.device.uuid())),
    field(&["gpu_bus_id"], None, |on, _| Text(place(on))),
    field(&["gpu_serial"], None, |_, _| Missing),
    field(&["host"], None, |_, it| Text(it.host.clone())),
];

/// The format of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    header: bool,
    units: bool,
}

impl Format {
    /// Parses `csv`, `noheader` and `nounits`.
    ///
    /// # Errors
    /// [`UsageError`] for anything else.
    pub(super) fn parse(words: &[String]) -> Result<Self, UsageError> {
        let mut format = Self {
            header: true,
            units: true,
        };
        for word in words {
            match word.trim() {
                "csv" => {}
                "noheader" => format.header = false,
                "nounits" => format.units = false,
                other => {
                    let why = format!("--format is csv[,noheader][,nounits], not {other:?}");
                    return Err(UsageError(why));
                }
            }
        }
        Ok(format)
    }
}

/// The requested fields, in order, each with the name that was used.
struct Chosen<'f, F>(Vec<(String, &'f Field<F>)>);

impl<'f, F> Chosen<'f, F> {
    fn of(option: &str, asked: &[String], fields: &'f [Field<F>]) -> Result<Self, UsageError> {
        let find = |name: &String| {
            let name = name.trim();
            let found = fields.iter().find(|field| field.names.contains(&name));
            let found = found.map(|field| (name.to_owned(), field));
            found.ok_or_else(|| {
                let names = fields.iter().flat_map(|field| field.names).copied();
                let names = names.collect::<Vec<_>>().join(", ");
                UsageError(format!(
                    "{option} knows no field {name:?}; there are: {names}"
                ))
            })
        };
        asked.iter().map(find).collect::<Result<_, _>>().map(Self)
    }

    fn header(&self, format: Format) -> Option<String> {
        let names = self.0.iter().map(|(name, field)| match field.unit {
            Some(unit) if format.units => format!("{name} [{unit}]"),
            _ => name.clone(),
        });
        format.header.then(|| csv::unquoted(names))
    }

    fn line(&self, format: Format, value: impl Fn(&F) -> Value) -> String {
        let values = self.0.iter().map(|(_, field)| value(&field.of));
        csv::unquoted(values.map(|value| match format.units {
            true => value.full(),
            false => value.bare(),
        }))
    }
}

/// Lines of devices.
///
/// # Errors
/// [`UsageError`] for an unknown field.
pub(super) fn device_lines(
    asked: &[String],
    shown: &[Shown],
    format: Format,
) -> Result<String, UsageError> {
    let fields = Chosen::of("--query-gpu", asked, DEVICE)?;
    let count = shown.len();
    let rows = shown.iter();
    let rows = rows.map(|it| fields.line(format, |of| of(it, count)));
    let lines = fields.header(format).into_iter().chain(rows);
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Lines of processes.
///
/// # Errors
/// [`UsageError`] for an unknown field.
pub(super) fn process_lines(
    asked: &[String],
    shown: &[Shown],
    format: Format,
) -> Result<String, UsageError> {
    let fields = Chosen::of("--query-compute-apps", asked, PROCESS)?;
    let mut lines: Vec<_> = fields.header(format).into_iter().collect();
    for on in shown {
        for process in &on.processes {
            lines.push(fields.line(format, |of| of(on, process)));
        }
    }
    Ok(lines.join("\n"))
}

/// The first name of each field.
fn named<F>(fields: &[Field<F>]) -> Vec<Candidate> {
    let first = fields.iter().filter_map(|field| field.names.first());
    first.map(|name| Candidate::new(*name, "")).collect()
}

/// The names of a device's fields.
pub(super) fn device_fields() -> Vec<Candidate> {
    named(DEVICE)
}

/// The names of a process's fields.
pub(super) fn process_fields() -> Vec<Candidate> {
    named(PROCESS)
}

/// Refuses unknown fields before any values are requested.
///
/// # Errors
/// [`UsageError`] with all field names.
pub(super) fn check(
    devices: &[String],
    processes: &[String],
    format: &[String],
) -> Result<Format, UsageError> {
    device_lines(devices, &[], Format::parse(&[])?)?;
    process_lines(processes, &[], Format::parse(&[])?)?;
    Format::parse(format)
}
