use evenkeel_kernels::{RowCopy, Segments, Type, columns, embed, embed_backward, gather, scatter};
use evenkeel_model::kernels::Rows;

use crate::Runner;
use crate::case::{Case, TYPES, assert_close, cpu, matrix, tensor, values};
use crate::memory::{Buffer, rounded};

/// (rows, vocabulary, width): one token, odd widths, one id for every row, more rows than ids.
const SHAPES: [(usize, usize, usize); 8] =
    [(1, 5, 3), (20, 7, 8), (33, 1, 65), (64, 300, 40), (9, 4, 1031), (40, 11, 512), (1, 3, 4097), (4097, 13, 8)];

pub(crate) fn embedding(runner: &dyn Runner) {
    for (seed, (rows, vocabulary, width)) in SHAPES.into_iter().enumerate() {
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let table = case.normal(vocabulary * width);
            let ids = case.ids(rows, vocabulary);
            let copy = RowCopy { kind, rows, width };
            let from = Buffer::f32(&table);
            let chosen = Buffer::u32(&ids);
            let y = Buffer::blank(kind, rows * width);
            runner.run(&embed(runner.properties(), copy, from.pointer(), chosen.pointer(), y.pointer()).unwrap(), 0);
            let wanted = values(&cpu().embed(&tensor(&table, &[vocabulary, width]), &ids).unwrap());
            let wanted: Vec<f32> = wanted.into_iter().map(|value| rounded(kind, value)).collect();
            assert_eq!(y.read(kind), wanted, "{copy:?}");

            let dy = case.of(kind, rows * width);
            let before = case.normal(vocabulary * width);
            let gradient = Buffer::f32(&before);
            let segments = Segments::of(&ids);
            let lists = [&segments.order, &segments.starts, &segments.ids].map(|list| Buffer::u32(list));
            let lists_at = [0, 1, 2].map(|at| lists[at].pointer());
            let dy_at = Buffer::values(kind, &dy, case.one_of(&[0, 1]));
            let sizes = [rows, segments.ids.len(), width];
            let launch =
                embed_backward(runner.properties(), kind, sizes, dy_at.pointer(), lists_at, gradient.pointer())
                    .unwrap();
            runner.run(&launch, seed as u32);
            let mut wanted = before.clone();
            cpu().embed_backward(&matrix(&dy, width), &ids, &mut wanted).unwrap();
            assert_close(&format!("gradient of {copy:?}"), Type::F32, 16.0, &gradient.read_f32(), &wanted);
        }
    }
    // An id without rows adds nothing.
    let gradient = Buffer::f32(&[1.0, 2.0]);
    let lists = [Buffer::u32(&[0]), Buffer::u32(&[0, 0, 1]), Buffer::u32(&[0, 1])];
    let dy = Buffer::f32(&[5.0]);
    let at = [0, 1, 2].map(|at| lists[at].pointer());
    let launch =
        embed_backward(runner.properties(), Type::F32, [1, 2, 1], dy.pointer(), at, gradient.pointer()).unwrap();
    runner.run(&launch, 0);
    assert_eq!(gradient.read_f32(), [1.0, 7.0]);
}

/// Columns of a wider matrix are copied out of it and back.
pub(crate) fn parts(runner: &dyn Runner) {
    for (seed, (rows, width, stride)) in
        [(1, 1, 1), (7, 3, 5), (5, 8, 24), (33, 16, 48), (3, 64, 65), (2, 1032, 4096)].into_iter().enumerate()
    {
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let whole = case.of(kind, rows * stride);
            let from = Buffer::values(kind, &whole, 0);
            let y = Buffer::blank(kind, rows * width);
            let copy = RowCopy { kind, rows, width };
            let launch = columns(runner.properties(), copy, from.pointer(), y.pointer(), [stride, width]).unwrap();
            runner.run(&launch, seed as u32);
            let wanted: Vec<f32> = whole.chunks(stride).flat_map(|row| row[..width].to_vec()).collect();
            assert_eq!(y.read(kind), wanted, "{copy:?} of {stride}");

            let before = case.of(kind, rows * stride);
            let into = Buffer::values(kind, &before, 0);
            let launch = columns(runner.properties(), copy, y.pointer(), into.pointer(), [width, stride]).unwrap();
            runner.run(&launch, seed as u32);
            let rest = before.chunks(stride).zip(whole.chunks(stride));
            let wanted: Vec<f32> = rest.flat_map(|(before, row)| [&row[..width], &before[width..]].concat()).collect();
            assert_eq!(into.read(kind), wanted, "{copy:?} into {stride}");
        }
    }
}

pub(crate) fn selection(runner: &dyn Runner) {
    for (seed, (total, _, width)) in SHAPES.into_iter().enumerate() {
        for kind in TYPES {
            let mut case = Case::new(seed as u64);
            let rows = case.between(1, total);
            let x = case.of(kind, total * width);
            let chosen = case.distinct(rows, total);
            let copy = RowCopy { kind, rows, width };
            let from = Buffer::values(kind, &x, 0);
            let ids = Buffer::u32(&chosen);
            let y = Buffer::blank(kind, rows * width);
            runner.run(&gather(runner.properties(), copy, from.pointer(), ids.pointer(), y.pointer()).unwrap(), 0);
            let selected = cpu().select_rows(&matrix(&x, width), &chosen).unwrap();
            assert_eq!(y.read(kind), values(&selected), "{copy:?}");

            let back = Buffer::values(kind, &vec![0.0; total * width], 0);
            runner.run(&scatter(runner.properties(), copy, y.pointer(), ids.pointer(), back.pointer()).unwrap(), 0);
            let wanted = cpu().scatter_rows(&selected, &chosen, total).unwrap();
            assert_eq!(back.read(kind), values(&wanted), "{copy:?}");
        }
    }
}
