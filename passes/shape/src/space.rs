//! The points that a model is compiled for.

use tenon_ir::{Attribute, Module};
use tenon_pass_manager::{PassError, Refusal};

/// Most points of a shape space.
pub(crate) const MAX_POINTS: usize = 1024;

/// Sizes of all named dimensions: one bucket.
pub type Point = Vec<(String, u64)>;

/// A named dimension of the shape space.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Sizes that are compiled for.
    pub sizes: Vec<u64>,
    /// Whether a bucket holds smaller sizes too: its size is a capacity, and the extent is known when a program runs.
    pub padded: bool,
}

/// Named dimensions with the sizes that each may have; a point is one size of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShapeSpace {
    axes: Vec<Axis>,
    /// Whether the i-th sizes of all dimensions make a point, instead of every combination.
    zipped: bool,
}

impl ShapeSpace {
    /// A space of given dimensions, which are put in order of their names.
    pub fn new(mut axes: Vec<Axis>) -> Self {
        axes.sort();
        ShapeSpace { axes, zipped: false }
    }

    /// The space whose points are the i-th size of each dimension together.
    pub fn zipped(self) -> Self {
        ShapeSpace { zipped: true, ..self }
    }

    /// Its dimensions, in order of their names.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Whether a dimension takes sizes between those of its buckets.
    pub fn is_padded(&self, name: &str) -> bool {
        self.axes.iter().any(|axis| axis.name == name && axis.padded)
    }

    /// Number of points; `None` when there are more than can be compiled.
    pub fn count(&self) -> Option<usize> {
        if self.zipped {
            return (self.points().len() <= MAX_POINTS).then_some(self.points().len());
        }
        let count = self.axes.iter().try_fold(1usize, |count, axis| count.checked_mul(axis.sizes.len()))?;
        (count <= MAX_POINTS).then_some(count)
    }

    /// All points, each once; of a product the last dimension changing fastest; one without names if there is no dimension.
    pub fn points(&self) -> Vec<Point> {
        if self.zipped {
            let count = self.axes.iter().map(|axis| axis.sizes.len()).min().unwrap_or(1);
            let mut points: Vec<Point> = Vec::new();
            for index in 0..count.min(MAX_POINTS + 1) {
                let point = self.axes.iter().map(|axis| (axis.name.clone(), axis.sizes[index])).collect();
                // A dimension that the model fixes is no axis, so that two rows may have become one.
                if !points.contains(&point) {
                    points.push(point);
                }
            }
            return points;
        }
        let mut points: Vec<Point> = vec![Vec::new()];
        for axis in &self.axes {
            let extend = |point: &Point| {
                let extended = axis.sizes.iter().map(|size| [point.clone(), vec![(axis.name.clone(), *size)]].concat());
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
        let padded = padded_names(module)?;
        let entries =
            module.op().attribute("graph.shape_space").and_then(Attribute::as_dictionary).ok_or_else(wrong)?;
        let mut axes = Vec::new();
        for (name, sizes) in entries {
            let sizes = sizes.as_i64_array().filter(|sizes| !sizes.is_empty()).ok_or_else(wrong)?;
            let sizes = sizes.into_iter().map(u64::try_from).collect::<Result<Vec<_>, _>>().map_err(|_| wrong())?;
            axes.push(Axis { padded: padded.contains(&name), name, sizes });
        }
        let mut space = ShapeSpace::new(axes);
        space.zipped = match module.op().string("graph.combine").as_deref() {
            None | Some("product") => false,
            Some("zip") => true,
            Some(_) => return Err(wrong()),
        };
        space.count().ok_or_else(wrong)?;
        Ok(space)
    }

    /// Writes the attributes `graph.shape_space` and, where they are not the usual, `graph.combine` and `graph.padded`.
    pub(crate) fn write(&self, module: &Module<'_>) -> Result<(), PassError> {
        let context = module.context();
        let list = |sizes: &[u64]| context.i64_array(&sizes.iter().map(|size| *size as i64).collect::<Vec<_>>());
        let entries: Vec<_> = self.axes.iter().map(|axis| (axis.name.as_str(), list(&axis.sizes))).collect();
        module.op().set_attribute("graph.shape_space", context.dictionary(&entries))?;
        if self.zipped {
            module.op().set_attribute("graph.combine", context.string("zip"))?;
        }
        let padded: Vec<_> =
            self.axes.iter().filter(|axis| axis.padded).map(|axis| context.string(&axis.name)).collect();
        if !padded.is_empty() {
            module.op().set_attribute("graph.padded", context.array(&padded))?;
        }
        Ok(())
    }
}

/// Names of the dimensions whose size in a bucket is a capacity, by the attribute `graph.padded`.
pub(crate) fn padded_names(module: &Module<'_>) -> Result<Vec<String>, PassError> {
    let Some(attribute) = module.op().attribute("graph.padded") else { return Ok(Vec::new()) };
    let names = attribute.as_array().and_then(|list| list.into_iter().map(Attribute::as_string).collect());
    let help = "resume at stage `contract`, which writes it";
    names.ok_or_else(|| Refusal::new("E0413", "`graph.padded` is no list of names", help).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_all_combinations() {
        let axis = |name: &str, sizes: &[u64]| Axis { name: name.into(), sizes: sizes.to_vec(), padded: false };
        let space = ShapeSpace::new(vec![axis("seq", &[32, 64]), axis("batch", &[1, 4])]);
        let points: Vec<Vec<u64>> =
            space.points().iter().map(|point| point.iter().map(|(_, value)| *value).collect()).collect();
        assert_eq!(points, [[1, 32], [1, 64], [4, 32], [4, 64]]);
        assert_eq!(space.points()[0][0].0, "batch");
        assert_eq!(ShapeSpace::default().points(), [Point::new()]);
        let zipped = ShapeSpace::new(vec![axis("seq", &[64, 32]), axis("batch", &[1, 4])]).zipped();
        assert_eq!(zipped.points()[1], [("batch".to_owned(), 4), ("seq".to_owned(), 32)]);
        assert_eq!((zipped.count(), ShapeSpace::default().zipped().points().len()), (Some(2), 1));
        let many = ShapeSpace::new((0..64).map(|dim| axis(&format!("d{dim}"), &[1, 2])).collect());
        assert_eq!(many.count(), None);
    }
}
