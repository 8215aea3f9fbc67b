//! All that is known of each device, as text in sections or as XML: one tree, written in two ways.

use admin::calendar::{moment, now_ms};
use nvml::driver_text;

use super::fields::{Value, busy, clock, free, place, reserved, total, used};
use super::view::{Shown, cuda_version};

/// A value, or a group of values, with its display name and the name of its XML element.
enum Node {
    Value(&'static str, &'static str, String),
    Group(&'static str, &'static str, Vec<Node>),
}

use Node::Group;

/// The text for a missing value.
const NONE: &str = "N/A";

fn text(name: &'static str, element: &'static str, text: impl Into<String>) -> Node {
    Node::Value(name, element, text.into())
}

fn value(name: &'static str, element: &'static str, value: Value) -> Node {
    let shown = match value {
        Value::Missing => NONE.into(),
        value => value.full(),
    };
    Node::Value(name, element, shown)
}

fn none(name: &'static str, element: &'static str) -> Node {
    text(name, element, NONE)
}

fn device(shown: &Shown) -> Vec<Node> {
    let properties = &shown.device.properties;
    let (major, minor) = properties.compute;
    let mut nodes = vec![
        text("Product Name", "product_name", &*properties.name),
        none("Product Brand", "product_brand"),
        text(
            "Compute Capability",
            "compute_cap",
            format!("{major}.{minor}"),
        ),
        text(
            "Multiprocessors",
            "multiprocessor_count",
            properties.sms.to_string(),
        ),
        text("Display Mode", "display_mode", "Disabled"),
        text("Display Active", "display_active", "Disabled"),
        text("Persistence Mode", "persistence_mode", "Enabled"),
        none("Serial Number", "serial"),
        text("GPU UUID", "uuid", shown.device.uuid()),
        text("Minor Number", "minor_number", shown.device.gpu.to_string()),
        text("Worker", "worker", shown.device.worker.to_string()),
        text("Compute Mode", "compute_mode", "Default"),
        none("Fan Speed", "fan_speed"),
        none("Performance State", "performance_state"),
    ];
    nodes.extend(groups(shown));
    nodes
}

#[expect(clippy::too_many_lines, reason = "one row for each field")]
fn groups(shown: &Shown) -> [Node; 8] {
    let properties = &shown.device.properties;
    let bus = format!("{:02X}", shown.device.gpu & 0xff);
    let (top, memory) = (properties.clock_khz, properties.memory_clock_khz);
    [
        Group(
            "PCI",
            "pci",
            vec![
                text("Bus", "pci_bus", bus),
                text("Device", "pci_device", "00"),
                text("Domain", "pci_domain", "0000"),
                text("Bus Id", "pci_bus_id", place(shown)),
            ],
        ),
        Group(
            "FB Memory Usage",
            "fb_memory_usage",
            vec![
                value("Total", "total", total(shown)),
                value("Reserved", "reserved", reserved(shown)),
                value("Used", "used", used(shown)),
                value("Free", "free", free(shown)),
            ],
        ),
        Group(
            "BAR1 Memory Usage",
            "bar1_memory_usage",
            vec![
                none("Total", "total"),
                none("Used", "used"),
                none("Free", "free"),
            ],
        ),
        Group(
            "Utilization",
            "utilization",
            vec![
                value("Gpu", "gpu_util", busy(shown)),
                none("Memory", "memory_util"),
                none("Encoder", "encoder_util"),
                none("Decoder", "decoder_util"),
            ],
        ),
        Group(
            "Temperature",
            "temperature",
            vec![none("GPU Current Temp", "gpu_temp")],
        ),
        Group(
            "GPU Power Readings",
            "gpu_power_readings",
            vec![
                none("Power Draw", "power_draw"),
                none("Current Power Limit", "current_power_limit"),
            ],
        ),
        Group(
            "Max Clocks",
            "max_clocks",
            vec![
                value("Graphics", "graphics_clock", clock(top)),
                value("SM", "sm_clock", clock(top)),
                value("Memory", "mem_clock", clock(memory)),
            ],
        ),
        Group(
            "Processes",
            "processes",
            shown
                .processes
                .iter()
                .map(|process| {
                    Group(
                        "Process",
                        "process_info",
                        vec![
                            text("Process ID", "pid", process.pid.to_string()),
                            text("Type", "type", "C"),
                            text("Name", "process_name", &*process.name),
                            text("Host", "host", &*process.host),
                            value("Used GPU Memory", "used_memory", Value::Bytes(process.held)),
                        ],
                    )
                })
                .collect(),
        ),
    ]
}

fn head(shown: &[Shown]) -> [Node; 4] {
    [
        text("Timestamp", "timestamp", moment(now_ms())),
        text("Driver Version", "driver_version", driver_text()),
        text("CUDA Version", "cuda_version", cuda_version(shown)),
        text("Attached GPUs", "attached_gpus", shown.len().to_string()),
    ]
}

/// The devices as text in sections.
pub(super) fn sections(shown: &[Shown]) -> String {
    let mut out = String::from("==============WARPLOOM SMI LOG==============\n\n");
    head(shown)
        .iter()
        .for_each(|node| section(&mut out, node, 0));
    for it in shown {
        out += &format!("\nGPU {}\n", place(it));
        device(it)
            .iter()
            .for_each(|node| section(&mut out, node, 1));
    }
    out.trim_end().to_owned()
}

fn section(out: &mut String, node: &Node, depth: usize) {
    let indent = " ".repeat(4 * depth);
    match node {
        Node::Value(name, _, value) => {
            let label = format!("{indent}{name}");
            *out += &format!("{label:<50}: {value}\n");
        }
        Group(name, _, nodes) if nodes.is_empty() => {
            let label = format!("{indent}{name}");
            *out += &format!("{label:<50}: None\n");
        }
        Group(name, _, nodes) => {
            *out += &format!("{indent}{name}\n");
            nodes.iter().for_each(|node| section(out, node, depth + 1));
        }
    }
}

/// The devices as XML.
pub(super) fn xml(shown: &[Shown]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n");
    head(shown)
        .iter()
        .for_each(|node| element(&mut out, node, 1));
    for it in shown {
        out += &format!("\t<gpu id=\"{}\">\n", escaped(&place(it)));
        device(it)
            .iter()
            .for_each(|node| element(&mut out, node, 2));
        out += "\t</gpu>\n";
    }
    out + "</nvidia_smi_log>"
}

fn element(out: &mut String, node: &Node, depth: usize) {
    let indent = "\t".repeat(depth);
    match node {
        Node::Value(_, name, value) => {
            *out += &format!("{indent}<{name}>{}</{name}>\n", escaped(value));
        }
        Group(_, name, nodes) => {
            *out += &format!("{indent}<{name}>\n");
            nodes.iter().for_each(|node| element(out, node, depth + 1));
            *out += &format!("{indent}</{name}>\n");
        }
    }
}

/// Escapes a text for an XML element, and replaces characters that XML does not allow.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            it if it.is_control() || matches!(it, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            it => out.push(it),
        }
    }
    out
}
