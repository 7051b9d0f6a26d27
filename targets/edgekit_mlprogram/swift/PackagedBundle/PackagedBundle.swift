import Foundation

/// The bundle that this package was made from.
public enum PackagedBundle {
    /// Where its manifest and its model lie.
    public static let folder = Bundle.module.resourceURL ?? Bundle.module.bundleURL
}

extension ModelBundle {
    /// The bundle that this package was made from.
    ///
    /// - Parameter goldenSamples: The folder that holds `golden`, for the golden check.
    public init(goldenSamples: URL? = nil) throws {
        try self.init(folder: PackagedBundle.folder, goldenSamples: goldenSamples)
    }
}
