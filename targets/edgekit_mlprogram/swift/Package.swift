// swift-tools-version: 5.5

// This bundle as a Swift package, under names of its own: an app may hold several. `PackagedModel` reads and runs the
// model; `PackagedModelGolden` holds the golden samples, which an app need not ship; the tests run the golden check with
// Core AI or Core ML and write a results file for `edgekit verify --results`.
//
// Xcode compiles a model that is processed. From version 5.6 of the tools on `swift build` puts the files of a processed
// folder beside each other, unless it knows the folder's suffix, which it does not: up to 5.5 it keeps the folder.

import PackageDescription

let package = Package(
    name: "PackagedModel",
    platforms: [.iOS("16.0"), .macOS("13.0")],
    products: [
        .library(name: "PackagedModel", targets: ["PackagedModel"]),
        .library(name: "PackagedModelGolden", targets: ["PackagedModelGolden"]),
    ],
    targets: [
        .target(
            name: "PackagedModel",
            path: ".",
            exclude: [
                "check.py", "check_service.py", "golden_check.py", "graph.json", "instruction_sets.py", "measurements.json",
                "report.md", "golden", "swift/GoldenSamples", "swift/GoldenCheckTests",
            ],
            sources: ["swift/EdgeKitBundle", "swift/PackagedBundle"],
            resources: [.copy("manifest.json"), .process("model.mlpackage")]
        ),
        .target(
            name: "PackagedModelGolden",
            path: ".",
            exclude: [
                "check.py", "check_service.py", "golden_check.py", "graph.json", "instruction_sets.py", "measurements.json",
                "report.md", "manifest.json", "model.mlpackage", "swift/EdgeKitBundle", "swift/PackagedBundle",
                "swift/GoldenCheckTests",
            ],
            sources: ["swift/GoldenSamples"],
            resources: [.copy("golden")]
        ),
        .testTarget(
            name: "PackagedModelTests",
            dependencies: ["PackagedModel", "PackagedModelGolden"],
            path: "swift/GoldenCheckTests"
        ),
    ]
)
