import CoreGraphics

/// Converts strokes to the form of the training digits (MNIST): white on black, scaled into a box of 20/28 of the
/// picture's width, in the middle of the picture.
enum DigitPicture {
    private static let side = 280
    private static let box = CGFloat(side) * 20 / 28

    static func render(_ strokes: [[CGPoint]]) -> CGImage? {
        let points = strokes.flatMap { $0 }
        let pen = DrawingView.pen
        guard
            let (left, right) = extent(points.map(\.x)),
            let (top, bottom) = extent(points.map(\.y)),
            let context = CGContext(
                data: nil, width: side, height: side, bitsPerComponent: 8, bytesPerRow: 0,
                space: CGColorSpaceCreateDeviceGray(), bitmapInfo: CGImageAlphaInfo.none.rawValue)
        else {
            return nil
        }
        let factor = box / (max(right - left, bottom - top) + pen)
        let middle = CGFloat(side) / 2
        // In Core Graphics the y axis points upward, in views downward.
        context.translateBy(x: middle, y: middle)
        context.scaleBy(x: factor, y: -factor)
        context.translateBy(x: -(left + right) / 2, y: -(top + bottom) / 2)
        context.setStrokeColor(gray: 1, alpha: 1)
        context.setLineWidth(pen)
        context.setLineCap(.round)
        context.setLineJoin(.round)
        for stroke in strokes where !stroke.isEmpty {
            context.addLines(between: stroke.count == 1 ? [stroke[0], stroke[0]] : stroke)
            context.strokePath()
        }
        return context.makeImage()
    }

    private static func extent(_ values: [CGFloat]) -> (CGFloat, CGFloat)? {
        guard let least = values.min(), let greatest = values.max() else {
            return nil
        }
        return (least, greatest)
    }
}
