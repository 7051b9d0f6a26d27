import SwiftUI

/// A black square on which a finger draws white strokes.
struct DrawingView: View {
    /// The side of the square in points; strokes are in its coordinates.
    static let side: CGFloat = 280
    static let pen: CGFloat = 22

    @Binding var strokes: [[CGPoint]]
    /// Called when a stroke ends.
    let onStroke: () -> Void
    @State private var isDrawing = false

    var body: some View {
        Canvas { context, _ in
            for stroke in strokes {
                context.stroke(
                    Path { $0.addLines(stroke) }, with: .color(.white),
                    style: StrokeStyle(lineWidth: Self.pen, lineCap: .round, lineJoin: .round))
            }
        }
        .frame(width: Self.side, height: Self.side)
        .background(.black)
        .clipShape(RoundedRectangle(cornerRadius: 12))
        .gesture(
            DragGesture(minimumDistance: 0)
                .onChanged { drag in
                    if !isDrawing {
                        isDrawing = true
                        strokes.append([])
                    }
                    strokes[strokes.count - 1].append(drag.location)
                }
                .onEnded { _ in
                    isDrawing = false
                    onStroke()
                }
        )
        .accessibilityLabel("Draw a digit here")
        .accessibilityAddTraits(.allowsDirectInteraction)
    }
}
