package dev.mooncake4j.core.plan;

import dev.mooncake4j.connector.KvConnectorException;

/** No copy can be planned; nothing was added to the list of copies. */
public final class PlanException extends KvConnectorException {
  private static final long serialVersionUID = 1L;

  /** What stands in the way. */
  public enum Reason {
    /** A rank or a size is out of its range. */
    RANK,
    /** One tensor-parallel size does not divide the other, or the KV heads do not fit them. */
    TP_SIZE,
    /** The peer's tensor-parallel rank is not one that this rank pairs with. */
    NOT_PAIRED,
    /** A region's own numbers do not fit each other, or its addresses reach 2^63. */
    REGION,
    /** A layer, or a piece of it, is on one side only. */
    LAYER_SET,
    /** A layer has another index on the other side. */
    LAYER_INDEX,
    /** A layer is in another KV cache group on the other side, or in one that does not exist. */
    GROUP_INDEX,
    /** A layer's rows are shared by other groups on the other side. */
    SHARED_GROUPS,
    /** The bytes of a block do not fit the tensor-parallel sizes. */
    KV_BLOCK_LENGTH,
    /** A row that hides its layers cannot be split between pipelines of different sizes. */
    OPAQUE_ROW,
    /** The two sides name another number of KV cache groups. */
    GROUP_COUNT,
    /** The decoder asks for more blocks than the prefiller holds. */
    BLOCK_COUNT,
    /** A block id is below 0 or past its region's end. */
    BLOCK_ID,
    /** More copies than one list takes. */
    TOO_MANY_DESCRIPTORS,
    /** The two sides name another model, or another type of KV. */
    FINGERPRINT,
    /** The decoder's engine is at a host that may not be written to. */
    PEER_HOST
  }

  private final Reason reason;

  /** With a message that names the field and the values of both sides. */
  public PlanException(Reason reason, String message) {
    super(message);
    this.reason = reason;
  }

  /** What stands in the way. */
  public Reason reason() {
    return reason;
  }
}
