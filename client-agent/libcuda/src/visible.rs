//! The devices that the program sees, in their order, by CUDA's variables for that.

use std::cmp::Reverse;

use client_session::gpu_uuid;

use crate::attribute::Properties;
use crate::device::Device;

/// Keeps the devices that `CUDA_VISIBLE_DEVICES` names, in its order. Without it, keeps all
/// devices, in the order of `CUDA_DEVICE_ORDER`. The sessions of the others end.
pub(crate) fn of(devices: Vec<Device>) -> Vec<Device> {
    let variable = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let by_bus = variable("CUDA_DEVICE_ORDER").is_some_and(|order| order == "PCI_BUS_ID");
    let rows: Vec<_> = devices
        .iter()
        .map(|device| Row::of(&device.properties))
        .collect();
    let order = order(&rows, by_bus);
    let chosen = match variable("CUDA_VISIBLE_DEVICES") {
        Some(list) => chosen(&list, &rows, &order),
        None => order,
    };
    let mut devices: Vec<_> = devices.into_iter().map(Some).collect();
    chosen
        .into_iter()
        .filter_map(|at| devices[at].take())
        .collect()
}

/// The properties by which a device is chosen and sorted.
#[derive(Debug, Clone)]
struct Row {
    bus: i32,
    /// A measure of speed: multiprocessors times clock.
    width: i64,
    uuid: String,
}

impl Row {
    fn of(properties: &Properties) -> Self {
        let number = |attribute| i64::from(properties.attribute(attribute).unwrap_or(0));
        Self {
            bus: properties.gpu,
            // Multiprocessors and their clock.
            width: number(16) * number(13).max(1),
            uuid: gpu_uuid(&properties.uuid()),
        }
    }
}

/// The devices in CUDA's order: the fastest first, or by their place on the bus.
fn order(rows: &[Row], by_bus: bool) -> Vec<usize> {
    let mut order: Vec<_> = (0..rows.len()).collect();
    match by_bus {
        true => order.sort_by_key(|at| rows[*at].bus),
        false => order.sort_by_key(|at| Reverse(rows[*at].width)),
    }
    order
}

/// The devices of a list of numbers and UUIDs, up to the first entry that names none. A UUID may be
/// abbreviated if it still identifies one device. A device that is named twice makes the list
/// invalid.
fn chosen(list: &str, rows: &[Row], order: &[usize]) -> Vec<usize> {
    let mut chosen = Vec::new();
    for word in list.split(',') {
        let word = word.trim();
        let found = match word.parse::<usize>() {
            Ok(number) => order.get(number).copied(),
            Err(_) if word.len() > 4 && word.starts_with("GPU-") => {
                let mut named = order.iter().filter(|at| rows[**at].uuid.starts_with(word));
                named.next().copied().filter(|_| named.next().is_none())
            }
            Err(_) => None,
        };
        match found {
            Some(at) if chosen.contains(&at) => return Vec::new(),
            Some(at) => chosen.push(at),
            None => break,
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |bus, width, uuid: &str| Row {
            bus,
            width,
            uuid: uuid.into(),
        };
        vec![
            row(7, 10, "GPU-0a00-1"),
            row(3, 30, "GPU-0b00-2"),
            row(5, 30, "GPU-0b11-3"),
        ]
    }

    #[test]
    fn devices_are_sorted_by_speed_or_by_bus() {
        assert_eq!(order(&rows(), false), [1, 2, 0]);
        assert_eq!(order(&rows(), true), [1, 2, 0]);
        let swapped: Vec<_> = rows().into_iter().rev().collect();
        assert_eq!(order(&swapped, true), [1, 0, 2]);
        assert_eq!(order(&swapped, false), [0, 1, 2]);
    }

    #[test]
    fn a_list_names_devices_up_to_its_first_mistake() {
        let of = |list| chosen(list, &rows(), &[1, 2, 0]);
        assert_eq!(of("0"), [1]);
        assert_eq!(of("2, 0"), [0, 1]);
        assert_eq!(of("1,7,0"), [2]);
        assert_eq!(of("GPU-0b1,GPU-0a00-1"), [2, 0]);
        for none in [
            "",
            "-1",
            "NoDevFiles",
            "GPU-0b",
            "GPU-",
            "0,0",
            "0,GPU-0b00",
            "x,0",
        ] {
            assert_eq!(of(none), [0; 0], "{none}");
        }
    }
}
