// swift-tools-version: 5.9

// This bundle as a Swift package: `import EdgeKitBundle` reads and runs bundles, `PackagedBundle` holds this one, and
// the tests run its golden check with Core AI or Core ML and write a results file for `edgekit verify --results`.

import PackageDescription

let package = Package(
    name: "EdgeKitCheck",
    platforms: [.iOS(.v16), .macOS(.v13)],
    products: [.library(name: "EdgeKitCheck", targets: ["EdgeKitBundle", "PackagedBundle"])],
    targets: [
        .target(name: "EdgeKitBundle", path: "swift/EdgeKitBundle"),
        .target(
            name: "PackagedBundle",
            path: ".",
            exclude: ["check.py", "check_service.py", "golden_check.py", "graph.json", "report.md"],
            sources: ["swift/PackagedBundle"],
            resources: [.copy("manifest.json"), .copy("golden"), .copy("model.mlpackage")]
        ),
        .testTarget(
            name: "GoldenCheckTests",
            dependencies: ["EdgeKitBundle", "PackagedBundle"],
            path: "swift/GoldenCheckTests"
        ),
    ]
)
