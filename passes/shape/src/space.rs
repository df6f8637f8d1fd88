//! The points that a model is compiled for.

use tenon_ir::{Attribute, Context, Module};
use tenon_pass_manager::{PassError, Refusal};

/// Most points of a shape space.
pub(crate) const MAX_POINTS: usize = 1024;

/// Sizes of all named dimensions: one bucket.
pub type Point = Vec<(String, u64)>;

/// Named dimensions with the values that each may take; a point is one value of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShapeSpace {
    dims: Vec<(String, Vec<u64>)>,
}

impl ShapeSpace {
    /// A space of given dimensions, which are put in order of their names.
    pub fn new(mut dims: Vec<(String, Vec<u64>)>) -> Self {
        dims.sort();
        ShapeSpace { dims }
    }

    /// Number of points; `None` when there are more than can be compiled.
    pub fn count(&self) -> Option<usize> {
        let count = self.dims.iter().try_fold(1usize, |count, (_, values)| count.checked_mul(values.len()))?;
        (count <= MAX_POINTS).then_some(count)
    }

    /// All points, the last dimension changing fastest; one without names if there is no dimension.
    pub fn points(&self) -> Vec<Point> {
        let mut points: Vec<Point> = vec![Vec::new()];
        for (name, values) in &self.dims {
            let extend = |point: &Point| {
                let extended = values.iter().map(|value| [point.clone(), vec![(name.clone(), *value)]].concat());
                extended.collect::<Vec<_>>()
            };
            points = points.iter().flat_map(extend).take(MAX_POINTS + 1).collect();
        }
        points
    }

    /// The space that `contract` wrote into a module.
    ///
    /// # Errors
    /// `graph.shape_space` is missing, malformed or too large.
    pub fn read(module: &Module<'_>) -> Result<Self, PassError> {
        let wrong = || {
            let help = "resume at stage `contract`, which writes it";
            PassError::from(Refusal::new("E0413", "`graph.shape_space` is no dictionary of lists of sizes", help))
        };
        let entries =
            module.op().attribute("graph.shape_space").and_then(Attribute::as_dictionary).ok_or_else(wrong)?;
        let mut dims = Vec::new();
        for (name, values) in entries {
            let values = values.as_i64_array().filter(|values| !values.is_empty()).ok_or_else(wrong)?;
            let values = values.into_iter().map(u64::try_from).collect::<Result<Vec<_>, _>>().map_err(|_| wrong())?;
            dims.push((name, values));
        }
        let space = ShapeSpace::new(dims);
        space.count().ok_or_else(wrong)?;
        Ok(space)
    }

    /// The attribute `graph.shape_space`.
    pub(crate) fn write<'s>(&self, context: Context<'s>) -> Attribute<'s> {
        let list = |values: &[u64]| context.i64_array(&values.iter().map(|value| *value as i64).collect::<Vec<_>>());
        let entries: Vec<_> = self.dims.iter().map(|(name, values)| (name.as_str(), list(values))).collect();
        context.dictionary(&entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_all_combinations() {
        let space = ShapeSpace::new(vec![("seq".into(), vec![32, 64]), ("batch".into(), vec![1, 4])]);
        let points: Vec<Vec<u64>> =
            space.points().iter().map(|point| point.iter().map(|(_, value)| *value).collect()).collect();
        assert_eq!(points, [[1, 32], [1, 64], [4, 32], [4, 64]]);
        assert_eq!(space.points()[0][0].0, "batch");
        assert_eq!(ShapeSpace::default().points(), [Point::new()]);
        let many = ShapeSpace::new((0..64).map(|dim| (format!("d{dim}"), vec![1, 2])).collect());
        assert_eq!(many.count(), None);
    }
}
