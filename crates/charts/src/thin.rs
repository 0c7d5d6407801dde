//! Fewer points where there are more than a drawing can show.

use crate::series::Point;

/// Most points of a line: two for each half of a pixel.
pub(crate) const MOST: usize = 1000;
/// Steps to either side over which a noisy line is averaged.
const RADIUS: usize = 2;

/// At most about [`MOST`] points: of each stretch the lowest and the highest, so that no peak is lost.
pub(crate) fn thinned(points: &[Point]) -> Vec<Point> {
    if points.len() <= MOST {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(MOST / 2);
    let mut thinned = Vec::with_capacity(MOST + 2);
    for part in points.chunks(stretch) {
        let by_value = |a: &(usize, &Point), b: &(usize, &Point)| a.1.y.total_cmp(&b.1.y);
        let low = part.iter().enumerate().min_by(by_value);
        let high = part.iter().enumerate().max_by(by_value);
        let (Some((low, _)), Some((high, _))) = (low, high) else { continue };
        thinned.push(part[low.min(high)]);
        if low != high {
            thinned.push(part[low.max(high)]);
        }
    }
    thinned
}

/// Each point as the mean of five, itself in the middle; of fewer near the ends, so that the line neither lags nor
/// leads.
pub(crate) fn averaged(points: &[Point]) -> Vec<Point> {
    let mean = |middle: usize| {
        let radius = RADIUS.min(middle).min(points.len() - 1 - middle);
        let window = &points[middle - radius..=middle + radius];
        window.iter().map(|point| point.y).sum::<f64>() / window.len() as f64
    };
    points.iter().enumerate().map(|(index, point)| Point::new(point.x, mean(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_centred_so_that_a_straight_line_stays_where_it_is() {
        let points: Vec<_> = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0].map(|y| Point::new(0.0, y)).to_vec();
        let averaged: Vec<f64> = averaged(&points).into_iter().map(|point| point.y).collect();
        assert_eq!(averaged, [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]);
        let noisy: Vec<_> = [0.0, 1.0, 0.0, 1.0, 0.0].map(|y| Point::new(0.0, y)).to_vec();
        assert_eq!(super::averaged(&noisy)[2].y, 0.4);
    }

    #[test]
    fn a_line_of_many_points_keeps_its_peaks_and_its_order() {
        let mut points: Vec<_> = (0..100_000).map(|x| Point::new(f64::from(x), 0.5)).collect();
        (points[777].y, points[77_777].y) = (9.0, -9.0);
        let thinned = thinned(&points);
        assert!(thinned.len() <= MOST + 2);
        assert!(thinned.iter().any(|point| point.y == 9.0) && thinned.iter().any(|point| point.y == -9.0));
        assert!(thinned.is_sorted_by(|a, b| a.x < b.x));
    }
}
