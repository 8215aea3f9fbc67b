//! Time to prepare modules of each shape. `growth [SIZE] [SHAPE]` prints the microseconds for each
//! of SIZE pieces and of a tenth as many.

#[path = "../tests/growth/shapes.rs"]
mod shapes;

use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let size: usize = arguments
        .next()
        .and_then(|it| it.parse().ok())
        .unwrap_or(20_000);
    let only = arguments.next();
    for (name, make) in shapes::SHAPES {
        if only.as_deref().is_some_and(|only| only != *name) {
            continue;
        }
        let mut each = Vec::new();
        for size in [size / 10, size] {
            let text = make(size);
            let began = Instant::now();
            let built = device_cpu::Program::build(&text);
            let took = began.elapsed().as_secs_f64() * 1e6 / size as f64;
            each.push(took);
            if let Err(error) = built {
                println!("{name}: {error}");
            }
        }
        println!(
            "{name:12} {:9.3} {:9.3} us  x{:.2}",
            each[0],
            each[1],
            each[1] / each[0]
        );
    }
}
