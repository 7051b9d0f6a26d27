import CryptoKit
import Foundation

/// The bundle's models are not as the manifest has them.
public struct IntegrityError: Error, Equatable {
    /// What is wrong with a file.
    public enum Flaw: String, Sendable {
        case missing, changed
        case unlisted = "not in the manifest"
        /// The manifest has no sum of what was made of it; the app's signature covers that.
        case compiled = "compiled when the app was built"
    }

    /// By path in the bundle.
    public let flaws: [String: Flaw]
}

extension ModelBundle {
    /// Compares the models that Apple's systems load with the SHA-256 sums in the manifest.
    ///
    /// For a bundle that came over the network, before it is loaded. Who can change the files can change the manifest
    /// too: give the manifest's own sum where the app knows it.
    ///
    /// A model that Xcode compiled is none of the files that the manifest has sums of. What it computes cannot be checked
    /// here: it is a flaw, ``IntegrityError/Flaw/compiled``, unless `trustsCompiled` says that the bundle is the app's own,
    /// whose signature covers it. The manifest, and models that were not compiled, are checked all the same.
    ///
    /// - Parameters:
    ///   - manifestDigest: SHA-256 of `manifest.json` in hexadecimal digits, from a source that the app trusts.
    ///   - trustsCompiled: Whether a model passes that was compiled when the app was built. Never for a downloaded bundle.
    /// - Throws: ``IntegrityError`` with every file that is changed, missing or not in the manifest, and every model that
    ///   was compiled.
    public func checkIntegrity(manifestDigest: String? = nil, trustsCompiled: Bool = false) throws {
        var flaws: [String: IntegrityError.Flaw] = [:]
        if let manifestDigest, try digest(of: Manifest.fileName) != manifestDigest.lowercased() {
            flaws[Manifest.fileName] = .changed
        }
        let builds = manifest.builds.filter(\.isForApple)
        let compiled = builds.map(\.model.main).filter(isCompiled)
        if !trustsCompiled {
            for main in compiled { flaws[main] = .compiled }
        }
        let parts = builds.flatMap(\.model.files).filter { !compiled.contains($0) }
        let listed = manifest.files.filter { file in parts.contains { file.path == $0 || file.path.hasPrefix($0 + "/") } }
        let packages = builds.map(\.model.main).filter { ($0 as NSString).pathExtension == CoreMLBuild.suffix }
        let beside = packages.filter { !compiled.contains($0) }.map(Self.compiledPath)  // would be loaded in their place
        let present = Set((parts + beside).flatMap(files))
        for file in listed {
            if !present.contains(file.path) {
                flaws[file.path] = .missing
            } else if try digest(of: file.path) != file.sha256 {
                flaws[file.path] = .changed
            }
        }
        for path in present.subtracting(listed.map(\.path)) {
            flaws[path] = .unlisted
        }
        if !flaws.isEmpty { throw IntegrityError(flaws: flaws) }
    }

    /// Whether a model lies here as Xcode compiled it, and not itself.
    private func isCompiled(_ main: String) -> Bool {
        (main as NSString).pathExtension == CoreMLBuild.suffix && files(of: main).isEmpty
            && !files(of: Self.compiledPath(of: main)).isEmpty
    }

    /// The files that a part of the bundle consists of: itself, or all that lie below it.
    func files(of part: String) -> [String] {
        var isFolder: ObjCBool = false
        let place = folder.appendingPathComponent(part).path
        guard FileManager.default.fileExists(atPath: place, isDirectory: &isFolder) else { return [] }
        guard isFolder.boolValue else { return [part] }
        return (FileManager.default.subpaths(atPath: place) ?? []).map { "\(part)/\($0)" }.filter { path in
            FileManager.default.fileExists(atPath: folder.appendingPathComponent(path).path, isDirectory: &isFolder)
                && !isFolder.boolValue
        }
    }

    func digest(of path: String) throws -> String {
        Self.digits(of: try Data(contentsOf: folder.appendingPathComponent(path), options: .mappedIfSafe))
    }

    /// The SHA-256 sum of some bytes, in lower-case hexadecimal digits.
    static func digits(of content: Data) -> String {
        SHA256.hash(data: content).map { String(format: "%02x", $0) }.joined()
    }
}

extension Manifest.Build {
    /// Whether Core ML or Core AI loads it.
    fileprivate var isForApple: Bool {
        ["mlpackage", "aimodel"].contains((model.main as NSString).pathExtension)
    }
}
