//! What cards can do, as their makers state it.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Card {
    pub(super) name: &'static str,
    pub(super) memory_gib: f64,
    /// Dense bf16 products with fp32 sums, in flop/s.
    pub(super) flops: f64,
    /// Bytes of its memory that it reads in a second.
    pub(super) bandwidth: f64,
    /// Whether cuDNN computes attention on it for training: the compute capabilities 9.0 to 11.0.
    pub(super) has_fused_attention: bool,
}

/// Cards with the numbers of their makers' data sheets: without sparsity, boards with the full power limit (SXM where
/// there are several).
pub(super) const CARDS: [Card; 7] = [
    Card { name: "a100", memory_gib: 79.2, flops: 312e12, bandwidth: 2.04e12, has_fused_attention: false },
    Card { name: "h100", memory_gib: 79.2, flops: 989e12, bandwidth: 3.35e12, has_fused_attention: true },
    Card { name: "h200", memory_gib: 140.4, flops: 989e12, bandwidth: 4.8e12, has_fused_attention: true },
    Card { name: "b200", memory_gib: 178.0, flops: 2250e12, bandwidth: 8.0e12, has_fused_attention: true },
    Card { name: "l4", memory_gib: 22.0, flops: 121e12, bandwidth: 0.3e12, has_fused_attention: false },
    Card { name: "l40s", memory_gib: 44.4, flops: 362e12, bandwidth: 0.864e12, has_fused_attention: false },
    Card { name: "rtx4090", memory_gib: 23.5, flops: 165e12, bandwidth: 1.008e12, has_fused_attention: false },
];

impl Card {
    /// The names of all cards.
    pub fn names() -> [&'static str; CARDS.len()] {
        CARDS.map(|card| card.name)
    }

    pub(super) fn of(name: &str) -> Option<Self> {
        CARDS.into_iter().find(|card| card.name == name)
    }
}
