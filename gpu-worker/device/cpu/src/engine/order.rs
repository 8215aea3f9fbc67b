//! The order in which a warp's diverged lanes run, and the position of each instruction in it.

use crate::decode::form::Function;

/// The order of a program's instructions: that of the text, except in functions with an order of
/// their own.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// The position of each instruction; empty if all are in the order of the text.
    places: Vec<u32>,
    /// Starts of blocks that do not directly follow the previous block of the text, in ascending
    /// order.
    seams: Vec<u32>,
}

impl Order {
    /// The order of a program with that many instructions.
    pub(crate) fn of(functions: &[Function], instructions: usize) -> Self {
        let mut it = Self::default();
        for function in functions.iter().filter(|it| !it.order.is_empty()) {
            if it.places.is_empty() {
                it.places = (0..instructions as u32).collect();
            }
            let mut place = function.start;
            let mut last = None;
            for (start, end) in &function.order {
                if last.is_some_and(|last| last != *start) {
                    it.seams.push(*start);
                }
                last = Some(*end);
                for at in *start..*end {
                    it.places[at as usize] = place;
                    place += 1;
                }
            }
        }
        it.seams.sort_unstable();
        it
    }

    /// Position of an instruction.
    pub(crate) fn place(&self, pc: u32) -> u32 {
        self.places.get(pc as usize).copied().unwrap_or(pc)
    }

    /// The first instruction after this one in the text that other blocks may precede in the order.
    pub(crate) fn seam(&self, pc: u32) -> u32 {
        let next = self.seams.partition_point(|seam| *seam <= pc);
        self.seams.get(next).copied().unwrap_or(u32::MAX)
    }

    /// Bytes of the order.
    pub(crate) fn bytes(&self) -> usize {
        (self.places.len() + self.seams.len()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_keep_to_their_own() {
        let function = |start, order: &[(u32, u32)]| Function {
            start,
            order: order.to_vec(),
            ..Function::default()
        };
        let functions = [
            function(0, &[]),
            function(4, &[(4, 6), (8, 9), (6, 8), (9, 10)]),
        ];
        let order = Order::of(&functions, 10);
        let places: Vec<u32> = (0..10).map(|pc| order.place(pc)).collect();
        assert_eq!(places, [0, 1, 2, 3, 4, 5, 7, 8, 6, 9]);
        let seams: Vec<u32> = (0..10).map(|pc| order.seam(pc)).collect();
        assert_eq!(seams, [6, 6, 6, 6, 6, 6, 8, 8, 9, u32::MAX]);
        assert_eq!(Order::of(&functions[..1], 4).bytes(), 0);
    }
}
