import Foundation

/// The bundle that this package was made from.
public enum PackagedBundle {
    /// Where its manifest, its model and its golden samples lie.
    public static let folder = Bundle.module.resourceURL ?? Bundle.module.bundleURL
}
